//! Changes of texts before they become terms: lower case, then Unicode normalization form C, then letters
//! with diacritics as ASCII letters; the order of the steps is Cassandra's (`NonTokenizingAnalyzer`).

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::TermAnalysis;

/// Appends the changed text. Bytes that are not UTF-8 are appended as they are.
pub(super) fn analyse(out: &mut Vec<u8>, value: &[u8], analysis: TermAnalysis) {
    let Ok(text) = str::from_utf8(value) else {
        out.extend_from_slice(value);
        return;
    };
    let lower = if analysis.case_sensitive { None } else { Some(text.to_lowercase()) };
    let text = lower.as_deref().unwrap_or(text);
    let normal = if analysis.normalize { Some(text.nfc().collect::<String>()) } else { None };
    let text = normal.as_deref().unwrap_or(text);
    if !analysis.ascii || text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for letter in text.nfkd().filter(|letter| !is_combining_mark(*letter)) {
        match ascii_letters(letter) {
            Some(letters) => out.extend_from_slice(letters.as_bytes()),
            None => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Latin letters and punctuation that Unicode does not decompose into ASCII.
fn ascii_letters(letter: char) -> Option<&'static str> {
    Some(match letter {
        'ß' => "ss",
        'ẞ' => "SS",
        'Æ' => "AE",
        'æ' => "ae",
        'Œ' => "OE",
        'œ' => "oe",
        'Ø' => "O",
        'ø' => "o",
        'Đ' | 'Ð' => "D",
        'đ' | 'ð' => "d",
        'Þ' => "TH",
        'þ' => "th",
        'Ħ' => "H",
        'ħ' => "h",
        'ı' => "i",
        'Ł' => "L",
        'ł' => "l",
        'Ŋ' => "N",
        'ŋ' => "n",
        'Ŧ' => "T",
        'ŧ' => "t",
        'ƀ' => "b",
        'Ƶ' => "Z",
        'ƶ' => "z",
        '‘' | '’' | '‚' | '‛' | '′' => "'",
        '“' | '”' | '„' | '‟' | '″' => "\"",
        '‐' | '‑' | '‒' | '–' | '—' => "-",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, analysis: TermAnalysis, expect: &str) {
        let mut out = vec![];
        analyse(&mut out, text.as_bytes(), analysis);
        assert_eq!(str::from_utf8(&out).unwrap(), expect);
    }

    #[test]
    fn texts_are_analysed_as_the_options_state() {
        let none = TermAnalysis::NONE;
        check("Été", none, "Été");
        check("Été", TermAnalysis { case_sensitive: false, ..none }, "été");
        check("e\u{301}", TermAnalysis { normalize: true, ..none }, "é");
        check("Ééß Łódź", TermAnalysis { ascii: true, ..none }, "Eess Lodz");
        check("ÉÉß", TermAnalysis { case_sensitive: false, normalize: true, ascii: true }, "eess");
        let mut out = vec![];
        analyse(&mut out, &[0xff, b'A'], TermAnalysis { case_sensitive: false, ..none });
        assert_eq!(out, [0xff, b'A']);
    }
}
