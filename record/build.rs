// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF program that watches a process and generates its skeleton.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=../abi/include");
    scx_cargo::BpfBuilder::new()?.enable_skel("bpf/stints.bpf.c", "bpf").build()?;
    Ok(())
}
