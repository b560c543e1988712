//! A digest of the answer to each query of a file, in the form that the programs of all languages agree on
//! (tests/drivers/debian/README.md). A line of the file: name, page size, CQL, text parameters, separated by
//! tabs.

use crate::{Verdict, connect};
use futures::TryStreamExt;
use scylla::value::{CqlValue, Row};
use sha2::{Digest, Sha256};

pub async fn run(contact: &str, file: &str) -> Verdict {
    let session = connect(contact, "none").await?;
    for line in std::fs::read_to_string(file)?.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let mut prepared = session.prepare(fields[2]).await?;
        prepared.set_page_size(fields[1].parse()?);
        let mut rows = session.execute_iter(prepared, &fields[3..]).await?.rows_stream::<Row>()?;
        let mut digest = Sha256::new();
        let mut count = 0;
        while let Some(row) = rows.try_next().await? {
            let columns: Vec<String> = row.columns.iter().map(|value| text(value.as_ref())).collect();
            digest.update(columns.join("\t") + "\n");
            count += 1;
        }
        let hex: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{} {count} {hex}", fields[0]);
    }
    Ok(())
}

fn text(value: Option<&CqlValue>) -> String {
    let Some(value) = value else { return "~".into() };
    match value {
        CqlValue::Text(text) | CqlValue::Ascii(text) => text.clone(),
        CqlValue::Int(number) => number.to_string(),
        CqlValue::BigInt(number) => number.to_string(),
        CqlValue::Boolean(truth) => truth.to_string(),
        CqlValue::List(elements) => {
            format!("[{}]", elements.iter().map(|each| text(Some(each))).collect::<Vec<_>>().join(","))
        }
        CqlValue::Set(elements) => {
            let mut parts: Vec<String> = elements.iter().map(|each| text(Some(each))).collect();
            parts.sort();
            format!("[{}]", parts.join(","))
        }
        CqlValue::Map(entries) => {
            let mut parts: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}={}", text(Some(key)), text(Some(value))))
                .collect();
            parts.sort();
            format!("{{{}}}", parts.join(","))
        }
        CqlValue::UserDefinedType { fields, .. } => {
            format!(
                "({})",
                fields.iter().map(|(_, value)| text(value.as_ref())).collect::<Vec<_>>().join("|")
            )
        }
        other => format!("unexpected {other:?}"),
    }
}
