//! One self-contained HTML page of results: no script, nothing loaded from elsewhere.

use std::fmt::Write as _;

use crate::report::FIGURES;

/// A part of the page.
pub struct Section {
    pub title: String,
    pub text: String,
    /// Heads and rows.
    pub table: (Vec<String>, Vec<Vec<String>>),
    /// SVG documents.
    pub plots: Vec<String>,
    /// The text of the workload.
    pub source: String,
}

const STYLE: &str = "body{font:15px/1.5 sans-serif;margin:2em auto;max-width:80em;padding:0 1em;color:#222}\
    table{border-collapse:collapse;font-size:13px;margin:1em 0}\
    th,td{border-bottom:1px solid #ddd;padding:.3em .7em;text-align:right;white-space:nowrap}\
    th:first-child,td:first-child,.help{text-align:left}.help{color:#666;font-weight:normal}\
    .plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(32em,1fr));gap:1em}\
    .plots svg{width:100%;height:auto;border:1px solid #eee}\
    .wide{overflow-x:auto}pre{background:#f6f6f6;padding:1em;overflow-x:auto}";

/// `text` with the characters that HTML reserves replaced.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The page.
pub fn page(title: &str, sections: &[Section]) -> String {
    let title = escaped(title);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    for section in sections {
        let _ = write!(
            html,
            "<h2>{}</h2>\n<p>{}</p>\n<div class=\"wide\"><table><tr>",
            escaped(&section.title),
            escaped(&section.text)
        );
        let help = |row: &[String]| {
            let name = row.first().map_or("", String::as_str);
            FIGURES.iter().find(|figure| figure.name == name).map_or("", |figure| figure.help)
        };
        let is_explained = section.table.1.iter().any(|row| !help(row).is_empty());
        let heads = section.table.0.iter().map(|head| format!("<th>{}</th>", escaped(head)));
        html += &heads.collect::<String>();
        html += if is_explained { "<th class=\"help\">meaning</th></tr>\n" } else { "</tr>\n" };
        for row in &section.table.1 {
            let cells = row.iter().map(|cell| format!("<td>{}</td>", escaped(cell)));
            let _ = write!(html, "<tr>{}", cells.collect::<String>());
            if is_explained {
                let _ = write!(html, "<td class=\"help\">{}</td>", escaped(help(row)));
            }
            html += "</tr>\n";
        }
        html += "</table></div>\n<div class=\"plots\">\n";
        section.plots.iter().for_each(|svg| html += svg);
        html += "</div>\n";
        if !section.source.is_empty() {
            let _ = writeln!(
                html,
                "<details><summary>The workload</summary><pre>{}</pre></details>",
                escaped(&section.source)
            );
        }
    }
    html + "</body></html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_from_elsewhere_and_escapes_texts() {
        let section = Section {
            title: "a < b".to_string(),
            text: "x & y".to_string(),
            table: (
                vec!["figure".to_string(), "<STCS>".to_string()],
                vec![vec!["write amplification".to_string(), "1.0".to_string()]],
            ),
            plots: vec!["<svg></svg>".to_string()],
            source: "phases: []".to_string(),
        };
        let html = page("lab", &[section]);
        for part in [
            "a &lt; b",
            "x &amp; y",
            "&lt;STCS&gt;",
            "<svg></svg>",
            "<td>1.0</td><td class=\"help\">bytes written by flushes",
        ] {
            assert!(html.contains(part), "{part} is missing in {html}");
        }
        assert!(!html.contains("http") && !html.contains("<script"));
    }
}
