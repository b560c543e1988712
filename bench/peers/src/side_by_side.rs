//! Two reports as one table: of every figure that both have, the medians and their ratio.

use bench::report::{Report, number};

pub fn table(ours: &Report, theirs: &Report) -> String {
    let mut out = format!(
        "{:<16} {:>12} {:>12} {:>7}  {:<5} {:>15} {:>15}\n",
        "figure", "messina", "rocksdb", "ratio", "unit", "messina CPU us", "rocksdb CPU us"
    );
    for figure in &ours.figures {
        let Some(other) = theirs.get(&figure.name) else { continue };
        assert_eq!(figure.unit, other.unit, "{} counts the same", figure.name);
        let (mine, theirs) = (figure.spread().1, other.spread().1);
        let cpu = |us: Option<f64>| us.map_or(String::new(), |us| format!("{us:.2}"));
        out.push_str(&format!(
            "{:<16} {:>12} {:>12} {:>6.2}x  {:<5} {:>15} {:>15}\n",
            figure.name,
            number(mine),
            number(theirs),
            mine / theirs,
            figure.unit,
            cpu(figure.cpu_us()),
            cpu(other.cpu_us()),
        ));
    }
    out
}
