// SPDX-License-Identifier: GPL-2.0-only
//! Watches a display and prints each message as a line of JSON: `cargo run -p limelight-sense --example watch -- :0`.
//! With the arguments the daemon gives (`watch --display :0 --report-fd 3`) it is the helper itself, for the tests.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use limelight_abi::sense::MAX_PACKET_BYTES;
use limelight_sense::{WatchOptions, watch};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socketpair};

fn main() {
    if let Err(error) = print_messages() {
        eprintln!("watch: {error}");
        std::process::exit(1);
    }
}

fn print_messages() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let display = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [display] => display.to_owned(),
        ["watch", "--display", display, "--report-fd", number, "--owner", owner] => {
            let owner = Some(owner.parse()?);
            return Ok(watch(WatchOptions::from_numbers(display.to_owned(), number.parse()?, owner)?)?);
        }
        _ => return Err("name the display to watch, such as :0".into()),
    };
    let (ours, report) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    let helper = std::thread::spawn(move || watch(WatchOptions { display, report, owner: None }));
    let mut packet = vec![0; MAX_PACKET_BYTES];
    loop {
        let read = recv(ours.as_raw_fd(), &mut packet, MsgFlags::empty())?;
        if read == 0 {
            break;
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&packet[..read])?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    helper.join().map_err(|_| "the watching thread panicked")??;
    Ok(())
}
