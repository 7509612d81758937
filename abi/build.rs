// SPDX-License-Identifier: GPL-2.0-only
//! Turns `include/sched_abi.h` into Rust, so that no layout is typed twice, and its list of counters into a table of names.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let header = "include/sched_abi.h";
    println!("cargo:rerun-if-changed={header}");
    let out = PathBuf::from(env::var("OUT_DIR")?);

    bindgen::Builder::default()
        .header(header)
        // The layouts the BPF program sees are those of its own target.
        .clang_args(["-target", "bpf"])
        .allowlist_type("ll_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .layout_tests(true)
        .generate()?
        .write_to_file(out.join("sched_abi.rs"))?;

    fs::write(out.join("stats.rs"), stats_table(&fs::read_to_string(header)?)?)?;
    Ok(())
}

/// The X-macro list `LL_STATS` as a Rust table: `(name, description)` in the order of `enum ll_stat_id`.
fn stats_table(header: &str) -> Result<String, Box<dyn std::error::Error>> {
    let mut table = String::from("/// Name and description of every counter, in the order of `enum ll_stat_id`.\n");
    table.push_str("pub const STATS: &[(&str, &str)] = &[\n");
    for line in header.lines().map(str::trim).filter(|line| line.starts_with("X(") && line.contains('"')) {
        let inner = line.trim_end_matches('\\').trim().trim_start_matches("X(").trim_end_matches(')');
        let (name, description) = inner.split_once(',').ok_or("a counter needs a name and a description")?;
        writeln!(table, "    ({:?}, {}),", name.trim(), description.trim())?;
    }
    table.push_str("];\n");
    Ok(table)
}
