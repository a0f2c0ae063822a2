//! A report as one HTML page.

use std::fmt::Write;

use phalanx_render::plot::{SERIES, SURFACES};

use super::{Block, Cell, Mood, Report, Section};

/// Colours and sizes; figures are recoloured for dark pages by rules made from the renderer's own table.
const STYLE: &str = "
:root { color-scheme: light dark; --page: #ffffff; --ink: #22262e; --soft: #5b6270; --line: #d9dde4; --head: #f4f5f8;
  --good: #0a6b3d; --good-back: #e2f4ea; --warn: #7a4f00; --warn-back: #fdf0d3; --bad: #a1151d; --bad-back: #fde4e4; }
@media (prefers-color-scheme: dark) {
  :root { --page: #16181d; --ink: #eceef2; --soft: #a3abba; --line: #343a46; --head: #1f232b;
    --good: #7fdcaa; --good-back: #14352a; --warn: #ffcf70; --warn-back: #3b2f12; --bad: #ff9a9a; --bad-back: #451c20; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem clamp(0.75rem, 3vw, 2.5rem) 3rem; max-width: 82rem; background: var(--page);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0 0.25rem; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 0.6rem; padding-top: 0.4rem; border-top: 1px solid var(--line); }
p { margin: 0.5rem 0; } .soft, figcaption { color: var(--soft); font-size: 0.9rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.35rem 1rem; margin: 0.9rem 0; font-size: 0.95rem; }
a { color: inherit; text-underline-offset: 0.2em; }
.wide { overflow-x: auto; margin: 0.6rem 0; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0.7rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { background: var(--head); font-weight: 600; } td.number, th.number { text-align: right; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 11rem; max-width: 34rem; }
.mood { display: inline-block; padding: 0 0.5em; border-radius: 0.6em; }
.good { color: var(--good); background: var(--good-back); } .warn { color: var(--warn); background: var(--warn-back); }
.bad { color: var(--bad); background: var(--bad-back); } .unknown { color: var(--soft); background: var(--head); }
figure { margin: 0.8rem 0; } figure svg { display: block; height: auto; width: 100%; min-width: 38rem; max-width: 60rem; }
figure.double svg { min-width: 62rem; max-width: none; }
li { margin: 0.25rem 0; overflow-wrap: anywhere; }
@media screen and (max-width: 42rem) {
  thead { display: none; } table, tbody, tr, td { display: block; width: 100%; }
  tr { padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
  td, td.long, td.number { display: flex; justify-content: space-between; gap: 1rem; padding: 0.1rem 0; border: 0;
    min-width: 0; max-width: none; white-space: normal; overflow-wrap: anywhere; text-align: right; }
  td::before { content: attr(data-column); color: var(--soft); text-align: left; overflow-wrap: normal; }
  td:first-child { font-weight: 600; text-align: left; } td:first-child::before { content: none; }
  figure svg { min-width: 35rem; } figure.double svg { min-width: 70rem; }
}
@media print { nav { display: none; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
";

pub(super) fn page(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Phalanx benchmarks, {0}</title>\n<style>{STYLE}{1}</style>\n</head>\n<body>\n\
         <h1>Phalanx benchmarks</h1>\n<p class=\"soft\">{0}, made {2}</p>\n",
        escaped(&report.machine.name),
        dark_figures(),
        escaped(&report.generated_at),
    );
    out.push_str("<nav>");
    for section in &report.sections {
        _ = write!(out, "<a href=\"#{}\">{}</a>", anchor(section.title), escaped(section.title));
    }
    out.push_str("</nav>\n");
    report.sections.iter().for_each(|section| write_section(&mut out, section));
    out.push_str("</body>\n</html>\n");
    out
}

/// Rules that replace the colours of figures on a dark page: a style wins over an attribute.
fn dark_figures() -> String {
    let mut rules = String::from("@media (prefers-color-scheme: dark) {\n");
    for (light, dark) in SERIES.iter().chain(&SURFACES) {
        _ = writeln!(
            rules,
            "figure [fill=\"{light}\"] {{ fill: {dark}; }} figure [stroke=\"{light}\"] {{ stroke: {dark}; }}"
        );
    }
    rules + "}\n"
}

fn write_section(out: &mut String, section: &Section) {
    _ = writeln!(out, "<h2 id=\"{}\">{}</h2>", anchor(section.title), escaped(section.title));
    for block in &section.blocks {
        match block {
            Block::Text(text) => _ = writeln!(out, "<p class=\"soft\">{}</p>", escaped(text)),
            Block::List(lines) => {
                out.push_str("<ul>\n");
                lines.iter().for_each(|line| _ = writeln!(out, "<li>{}</li>", escaped(line)));
                out.push_str("</ul>\n");
            }
            Block::Table { columns, rows } => write_table(out, columns, rows),
            Block::Figure { svg, caption } => {
                // Two panels beside each other need more room to be read.
                let class = if width(svg) > 1000.0 { " class=\"double\"" } else { "" };
                let named =
                    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(caption)), 1);
                _ = writeln!(out, "<figure{class}><div class=\"wide\">{named}</div></figure>");
            }
        }
    }
}

/// The width that an SVG document states.
fn width(svg: &str) -> f64 {
    let after = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next());
    after.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

fn write_table(out: &mut String, columns: &[&str], rows: &[Vec<Cell>]) {
    out.push_str("<div class=\"wide\"><table>\n");
    if columns.iter().any(|name| !name.is_empty()) {
        out.push_str("<thead><tr>");
        for (i, name) in columns.iter().enumerate() {
            let number = rows.first().is_some_and(|row| row[i].number);
            _ = write!(out, "<th{}>{}</th>", if number { " class=\"number\"" } else { "" }, escaped(name));
        }
        out.push_str("</tr></thead>\n");
    }
    out.push_str("<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        row.iter().zip(columns).for_each(|(cell, column)| write_cell(out, cell, column));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// A cell names its column, which phones show beside it: there a row is a list.
fn write_cell(out: &mut String, cell: &Cell, column: &str) {
    // Names of cases are among these: several such columns must fit beside each other.
    let long = cell.text.chars().count() > 36;
    let class = match (cell.number, long) {
        (true, _) => " class=\"number\"",
        (false, true) => " class=\"long\"",
        (false, false) => "",
    };
    let mood = match cell.mood {
        Mood::Plain => None,
        Mood::Good => Some("good"),
        Mood::Warn => Some("warn"),
        Mood::Bad => Some("bad"),
        Mood::Unknown => Some("unknown"),
    };
    let text = escaped(&cell.text);
    let text = mood.map_or(text.clone(), |mood| format!("<span class=\"mood {mood}\">{text}</span>"));
    _ = write!(out, "<td{class} data-column=\"{}\">{text}</td>", escaped(column));
}

fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
