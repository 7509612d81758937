// SPDX-License-Identifier: MIT
//! Builds libcoop from the sources beside this crate, and turns its header into Rust, so that nothing of it is typed twice.

use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let header = "../include/coop.h";
    println!("cargo:rerun-if-changed={header}");
    println!("cargo:rerun-if-changed=../../abi/include/coop_abi.h");
    println!("cargo:rerun-if-changed=../src");
    let mut sources = Vec::new();
    for entry in fs::read_dir("../src")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    sources.sort();
    cc::Build::new()
        .files(sources)
        .include("../include")
        .include("../../abi/include")
        .define("_GNU_SOURCE", None)
        .std("gnu11")
        .compile("coop");
    bindgen::Builder::default()
        .header(header)
        .allowlist_function("coop_.*")
        .allowlist_type("coop_.*")
        .allowlist_var("COOP_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(true)
        .generate()?
        .write_to_file(PathBuf::from(env::var("OUT_DIR")?).join("coop.rs"))?;
    Ok(())
}
