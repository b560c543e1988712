use lab::workload::{parse, shipped, with_setting};
use lab::report;
fn runs(name: &str, settings: &[String], precision: f64) -> (lab::Workload, Vec<(String, lab::Outcome)>) {
    let mut text = shipped::find(name).map(str::to_string).unwrap_or_else(|| std::fs::read_to_string(name).unwrap());
    for s in settings { let (k, v) = s.split_once('=').unwrap(); text = with_setting(name, &text, k, v).unwrap(); }
    let w = parse(name, &text).unwrap();
    let r = w.strategies().iter().map(|s| {
        let t = std::time::Instant::now();
        let o = lab::run(&w, s, lab::RunOptions { precision, seed: None }).unwrap();
        eprintln!("{name} {} {:.1}s", s.name, t.elapsed().as_secs_f64());
        (s.name.clone(), o) }).collect();
    (w, r)
}
fn main() {
    let precision: f64 = std::env::var("PRECISION").map_or(1.0, |p| p.parse().unwrap());
    let a: Vec<String> = std::env::args().skip(1).collect();
    if a[0] == "table" {
        let m: Vec<_> = report::MATRIX.iter().map(|n| { let (w, r) = runs(n, &[], precision); print!("{}", report::text(n, &w, "strategy", &r)); (n.to_string(), r) }).collect();
        print!("{}", report::matrix(&m));
        return;
    }
    let (w, r) = runs(&a[0], &a[1..], precision);
    print!("{}", report::text(&a[0], &w, "strategy", &r));
    for (n, o) in &r { println!("{n} single {:.3} end/live {:.3} bytes/read end {:.0} compacted {:.3} GB peak {:.3}", o.end_single_reads, o.end_disk_bytes/o.end_live_bytes, o.end_bytes_per_read, o.compacted_bytes/1e9, o.peak_space()); }
}
