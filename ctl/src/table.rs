// SPDX-License-Identifier: GPL-2.0-only
//! A table for people from the same values that `--json` prints.

pub use limelight_spec::printable;
use serde_json::Value;

/// One column: the field of the JSON it shows, its head, and how a value is written.
pub struct Column {
    /// Name of the field.
    pub field: &'static str,
    /// Head of the column.
    pub head: &'static str,
    /// How it is written.
    pub cell: fn(&Value) -> String,
    /// Words are flush left, numbers flush right.
    pub left: bool,
}

/// Numbers with three digits behind the point.
pub fn thousandths(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |number| format!("{number:.3}"))
}

/// Numbers with one digit behind the point.
pub fn tenths(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |number| format!("{number:.1}"))
}

/// As it is. What comes from other programs may not steer the terminal.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) | Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

/// The table, a line for each row, heads first.
pub fn table(columns: &[Column], rows: &[Value]) -> String {
    let heads = columns.iter().map(|column| column.head.to_owned()).collect();
    let cells = |row: &Value| columns.iter().map(|column| (column.cell)(&row[column.field])).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows.iter().map(cells)).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().zip(columns).zip(&widths).map(|((cell, column), width)| match column.left {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Columns are as wide as what is in them; numbers are flush right, words flush left.
    #[test]
    fn columns_line_up() {
        let columns = [
            Column { field: "pid", head: "PID", cell: plain, left: false },
            Column { field: "name", head: "NAME", cell: plain, left: true },
            Column { field: "ms", head: "MS", cell: thousandths, left: false },
        ];
        let rows =
            [json!({"pid": 7, "name": "vim", "ms": 0.0625}), json!({"pid": 12345, "name": "x\u{1b}[2J", "ms": null})];
        assert_eq!(table(&columns, &rows), "  PID  NAME      MS\n    7  vim    0.062\n12345  x?[2J\n");
    }
}
