// SPDX-License-Identifier: GPL-2.0-only
//! scx_stats, as the sched_ext ecosystem's tools (scxtop, the OpenMetrics exporter) expect it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};

/// The scheduler at a glance. The counters are those of `LL_STATS` in `sched_abi.h`, since the scheduler was loaded.
#[stat_doc]
#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
#[stat(top)]
pub struct Metrics {
    #[stat(desc = "Processes with a rating")]
    pub rated: u64,
    #[stat(desc = "1 while somebody serves the person, else 0")]
    pub tracking: u64,
    #[stat(desc = "Cooperative processes, which have a page of the scheduler's")]
    pub cooperative: u64,
    #[stat(desc = "Seconds since the scheduler was loaded")]
    pub uptime_s: u64,
    #[stat(desc = "The scheduler's counters by name, since it was loaded")]
    pub counters: BTreeMap<String, u64>,
}

/// Where scx_stats serves by default.
pub const SOCKET: &str = "/run/scx/root/stats";

/// What is served: the loop writes it once a second, the server's threads read it.
pub type Shared = Arc<Mutex<Metrics>>;

/// Serve `shared` at the usual socket until the process ends.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(shared: &Shared) -> Result<StatsServer<(), Metrics>> {
    let server = StatsServer::new(server_data()).launch()?;
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
    StatsServerData::new().add_meta(Metrics::meta()).add_ops("top", StatsOps { open, close: None })
}
