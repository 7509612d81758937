// SPDX-License-Identifier: GPL-2.0-only
//! Turns the headers of `include/` into Rust, so that no layout is typed twice, and the list of counters into a table of names.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=include");
    let header = "include/sched_abi.h";
    bind(header, "ll_.*", &out.join("sched_abi.rs"))?;
    bind("include/coop_abi.h", "(coop|COOP)_.*", &out.join("coop_abi.rs"))?;
    bind("include/record_abi.h", "(ll|LL)_.*", &out.join("record_abi.rs"))?;
    fs::write(out.join("stats.rs"), stats_table(&fs::read_to_string(header)?)?)?;
    Ok(())
}

/// The types and constants of `header` whose names match `names`, as Rust in the file `twin`.
fn bind(header: &str, names: &str, twin: &Path) -> Result<(), Box<dyn std::error::Error>> {
    bindgen::Builder::default()
        .header(header)
        // The layouts the BPF program sees are those of its own target.
        .clang_args(["-target", "bpf"])
        .allowlist_type(names)
        .allowlist_var(names)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .layout_tests(true)
        .generate()?
        .write_to_file(twin)?;
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
