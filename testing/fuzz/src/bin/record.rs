//! A proxy between clients and a server of Redis's protocol. It records the bytes that each connection of the
//! clients sends.
//!
//! The corpus of sessions was recorded with it; testing/fuzz/README.md says how.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

const USAGE: &str = "ramhold-fuzz-record LISTEN_ADDRESS SERVER_ADDRESS FOLDER PREFIX";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, server, folder, prefix] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match record(listen, server, Path::new(folder), prefix) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ramhold-fuzz-record: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs until it is stopped.
fn record(listen: &str, server: &str, folder: &Path, prefix: &str) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    for (number, client) in listener.incoming().enumerate() {
        let (client, server) = (client?, TcpStream::connect(server)?);
        let file = folder.join(format!("{prefix}-{number}"));
        let (answers, asker) = (server.try_clone()?, client.try_clone()?);
        thread::spawn(move || pass(answers, asker, None));
        thread::spawn(move || pass(client, server, Some(file)));
    }
    Ok(())
}

/// Forwards bytes until they end, and writes them to the file.
fn pass(mut from: TcpStream, mut to: TcpStream, file: Option<PathBuf>) -> io::Result<()> {
    let mut file = file.map(File::create).transpose()?;
    let mut room = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut room)?;
        if count == 0 {
            return to.shutdown(Shutdown::Write);
        }
        if let Some(file) = &mut file {
            file.write_all(&room[..count])?;
        }
        to.write_all(&room[..count])?;
    }
}
