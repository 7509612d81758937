// SPDX-License-Identifier: GPL-2.0-only
//! scx_stats, as the sched_ext ecosystem's tools (scxtop, the OpenMetrics exporter) expect it.
//!
//! The exporter takes numbers, each a field of its own, and fails for ever on a field that is a map of numbers: the
//! counters are served beside the rest, though they are a list here. It puts `_om_prefix` before the name of each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use limelight_abi::sched::STATS;
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::Serialize;

/// The scheduler at a glance.
#[stat_doc]
#[derive(Clone, Debug, Default, Serialize, Stats)]
#[stat(top, desc = "limelight at a glance", _om_prefix = "limelight_")]
pub struct Metrics {
    #[stat(desc = "Processes with a rating")]
    pub rated: u64,
    #[stat(desc = "1 while somebody serves the person, else 0")]
    pub tracking: u64,
    #[stat(desc = "Cooperative processes, which have a page of the scheduler's")]
    pub cooperative: u64,
    #[stat(desc = "Seconds since the scheduler was loaded")]
    pub uptime_s: u64,
    #[stat(desc = "The counters of LL_STATS in sched_abi.h by name, since the scheduler was loaded")]
    #[serde(flatten)]
    pub counters: BTreeMap<&'static str, u64>,
}

/// Where the ecosystem's tools look for it.
pub const SOCKET: &str = "/run/scx/root/stats";

/// What is served: the loop writes it once a second, the server's threads read it.
pub type Shared = Arc<Mutex<Metrics>>;

/// Serve `shared` at the usual socket until the process ends.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(shared: &Shared) -> Result<StatsServer<(), Metrics>> {
    serve_at(Path::new(SOCKET), shared)
}

fn serve_at(socket: &Path, shared: &Shared) -> Result<StatsServer<(), Metrics>> {
    let server = StatsServer::new(server_data()).set_path(socket).launch()?;
    let (answers, requests) = server.channels();
    let shared = Arc::clone(shared);
    thread::Builder::new().name("scx_stats".to_owned()).spawn(move || {
        while requests.recv().is_ok() {
            let metrics = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if answers.send(metrics).is_err() {
                break;
            }
        }
    })?;
    Ok(server)
}

/// What is said of each field, the counters' own descriptions included.
fn described() -> StatsMeta {
    let mut meta = Metrics::meta();
    meta.fields.remove("counters");
    for (name, description) in STATS {
        let attrs = StatsFieldAttrs { desc: Some((*description).to_owned()), ..StatsFieldAttrs::default() };
        meta.fields.insert((*name).to_owned(), StatsField { data: StatsData::Datum(StatsKind::U64), attrs });
    }
    meta
}

fn server_data() -> StatsServerData<(), Metrics> {
    let open: Box<dyn StatsOpener<(), Metrics>> = Box::new(|(requests, answers)| {
        requests.send(())?;
        answers.recv()?;
        let read: Box<dyn StatsReader<(), Metrics>> = Box::new(|_arguments, (requests, answers)| {
            requests.send(())?;
            answers.recv()?.to_json()
        });
        Ok(read)
    });
    StatsServerData::new().add_meta(described()).add_ops("top", StatsOps { open, close: None })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use serde_json::Value;

    use super::*;

    /// The exporter that comes with the version of scx_stats that is linked: cargo knows where its source is.
    fn exporter() -> PathBuf {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // Of all platforms it would want packages that were never fetched.
        let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let told = Command::new(cargo)
            .args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", &here])
            .arg("--manifest-path")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .output()
            .unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        let metadata: Value = serde_json::from_slice(&told.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let manifest =
            packages.iter().find(|package| package["name"] == "scx_stats").unwrap()["manifest_path"].as_str();
        Path::new(manifest.unwrap()).with_file_name("scripts").join("scxstats_to_openmetrics.py")
    }

    /// Each counter with a value of its own.
    fn measured() -> Metrics {
        let counters = STATS.iter().zip(100..).map(|(&(name, _), value)| (name, value)).collect();
        Metrics { rated: 3, tracking: 1, cooperative: 2, uptime_s: 60, counters }
    }

    /// The exporter that scx_stats ships has every figure that is served under a name of ours, with its description.
    #[test]
    fn the_ecosystems_exporter_takes_every_figure() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("stats");
        let _server = serve_at(&socket, &Arc::new(Mutex::new(measured()))).unwrap();
        // It tries again for ever what fails: it gets 20 s for two rounds of 10 ms.
        let done = Command::new("timeout")
            .args(["20", "python3", "-B"])
            .arg(exporter())
            .args(["--intv", "0.01", "--path"])
            .arg(&socket)
            .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stats"))
            .output()
            .unwrap();
        let (text, complaints) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{complaints}");
        assert_eq!(complaints, "");
        let own = [("rated", 3), ("tracking", 1), ("cooperative", 2), ("uptime_s", 60)];
        for (name, value) in own.into_iter().chain(STATS.iter().map(|&(name, _)| name).zip(100..)) {
            assert!(text.contains(&format!("\nlimelight_{name} {value}.0\n")), "{name} is not {value} in:\n{text}");
        }
        for (name, description) in STATS {
            assert!(
                text.contains(&format!("# HELP limelight_{name} {description}\n")),
                "{name}: no description in:\n{text}"
            );
        }
    }
}
