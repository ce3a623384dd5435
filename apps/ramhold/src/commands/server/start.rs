//! The start of a server: checks the machine, divides its memory, and opens everything.

use super::arguments::Server;
use super::buffers::BufferPlace;
use super::device::{self, Kind};
use super::redis::{check_resp_ports, handed, redis_line, resp_config};
use crate::admin;
use crate::failure::Failure;
use crate::memory::{MemoryPlan, PLACE_BYTES, Roles, check_available};
use crate::process;
use crate::size::bytes_text;
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::limits::{LABEL_COUNT_MAX, LINK_COUNT_MAX, SEGLET_BYTES, SEGMENT_BYTES};
use ramhold_base::processor;
use ramhold_client::parse_addresses;
use ramhold_detector::DetectorConfig;
use ramhold_log::Geometry;
use ramhold_master::MasterConfig;
use ramhold_node::{RespConfig, ServerConfig, ServerNode, ServerSeen};
use ramhold_placement::HeadRoom;
use ramhold_runtime::{
    DiskConfig, Runtime, RuntimeConfig, StartError, free_space, memory_available, raise_file_limit,
};
use ramhold_wire::control::Address;
use ramhold_wire::membership::Link;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

/// Frames reserved on the device in one step: 128 MiB are there in milliseconds and last for a while.
pub const FRAMES_GROW_BY: u32 = 16;
pub const NEEDED_INTERVAL: Duration = Duration::from_secs(1);
const ENLIST_INTERVAL: Duration = Duration::from_millis(250);
/// How often another port is tried when somebody else takes the one that was just found free.
pub const PORT_ATTEMPT_COUNT: u32 = 16;

/// Everything that was found and chosen before the start.
pub struct Prepared {
    coordinator: SocketAddr,
    memory: MemoryPlan,
    pub buffers: BufferPlace,
    mode: Buffers,
    frames_max: u32,
    read_speed: device::ReadSpeed,
    resp: Option<RespConfig>,
}

impl Prepared {
    pub fn new(arguments: &Server) -> Result<Prepared, Failure> {
        let mut addresses = vec![arguments.bind];
        addresses.extend(arguments.advertise);
        addresses.extend(links(arguments, arguments.bind).iter().map(|link| link.address.0));
        process::check_exposure(&addresses, arguments.insecure_network)?;
        let roles = Roles { master: !arguments.no_master, backup: !arguments.no_backup };
        if !roles.master && !roles.backup {
            return Err(Failure::usage(
                "--no-master with --no-backup leaves nothing to do; give one of them",
            ));
        }
        if arguments.label.len() > LABEL_COUNT_MAX {
            return Err(Failure::usage(format!(
                "a server has at most {LABEL_COUNT_MAX} labels; give fewer --label"
            )));
        }
        check_links(&arguments.link)?;
        let first = arguments.advertise.unwrap_or(arguments.bind).ip();
        if let Some((name, _)) = arguments.link.iter().find(|(_, address)| address.ip() == first) {
            return Err(Failure::usage(format!(
                "--link {name}={first}: this is the server's first address; a link is in a further network"
            )));
        }
        let coordinator = coordinator_for(arguments)?;
        raise_file_limit();

        let dir = device::make_dir(arguments.dir())?;
        device::check_kind(&dir, Kind::Server)?;
        let buffers = BufferPlace::new(arguments.buffer_dir.as_deref(), &dir)?;
        let memory = MemoryPlan::new(arguments.memory, roles, arguments.buffers).map_err(Failure::usage)?;
        check_available(memory.total_bytes, buffers.held_bytes(), memory_available())
            .map_err(Failure::usage)?;
        let frames_max = if roles.backup { device::frames_max(&dir, arguments.disk)? } else { 0 };
        check_resp_ports(arguments)?;
        let resp = if arguments.no_resp { None } else { Some(resp_config(arguments, coordinator)?) };
        let mode = buffers.reserve(&memory)?;
        let read_speed = device::ReadSpeed::of(&dir);
        Ok(Prepared { coordinator, memory, buffers, mode, frames_max, read_speed, resp })
    }

    /// Opens everything. The address must be known before the machine is made, so a port of 0 is settled here.
    pub fn start(&self, arguments: &Server) -> Result<Runtime<ServerNode>, Failure> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let listen = settle(arguments.bind)?;
            let advertise = arguments.advertise.unwrap_or(listen);
            let region_bytes = usize::try_from(self.memory.log_bytes).expect("memory fits the address space");
            // The kernel supplies zeroed pages when they are first touched.
            let region = vec![0; region_bytes];
            let seed = RandomState::new().hash_one(std::process::id());
            let node = ServerNode::new(self.server_config(arguments, listen, advertise), region, seed);
            let config = RuntimeConfig {
                listen: Some(listen),
                reached_at: Some(advertise),
                limits: arguments.network_limits(),
                listen_links: links(arguments, listen)
                    .into_iter()
                    .map(|link| link.address.0)
                    .filter(|link| !covers(listen, *link))
                    .collect(),
                listen_also: [arguments.resp_port, arguments.resp_cluster_port]
                    .into_iter()
                    .flatten()
                    .map(|port| SocketAddr::new(listen.ip(), port))
                    .collect(),
                listen_open: handed(arguments.resp_stdin)?,
                listen_path: arguments
                    .resp_unix_socket
                    .clone()
                    .map(|path| (path, arguments.resp_unix_socket_mode)),
                hears_bytes: self.resp.is_some(),
                poll: arguments.poll.into(),
                disk: Some(DiskConfig {
                    data_dir: arguments.dir().to_owned(),
                    buffer_dir: self.buffers.path().to_owned(),
                }),
                read_memory_bytes: self.memory.recovery_cache_bytes,
                ..RuntimeConfig::default()
            };
            match Runtime::new(node, config) {
                Ok(runtime) => return Ok(runtime),
                Err(StartError::Listen { .. })
                    if arguments.bind.port() == 0 && attempt < PORT_ATTEMPT_COUNT => {}
                Err(error) => return Err(self.buffers.start_failed(&error)),
            }
        }
    }

    fn server_config(&self, arguments: &Server, listen: SocketAddr, advertise: SocketAddr) -> ServerConfig {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: SEGLET_BYTES };
        let mut master_config = MasterConfig::new(geometry, self.memory.log_bytes, self.memory.index_bytes);
        master_config.profile_bytes_max = self.memory.profile_bytes;
        master_config.replication.local_allowed = arguments.allow_local_backup;
        master_config.replication.copy_bytes_per_second = arguments.copy_rate;
        let buffers = match self.mode {
            Buffers::Reserved { count } => Some(count),
            Buffers::InFrames => None,
        };
        let segments = u32::try_from(self.memory.log_bytes / u64::from(SEGMENT_BYTES)).unwrap_or(u32::MAX);
        master_config.replication.head_room = HeadRoom::new(buffers, segments);
        master_config.scrub_bytes_per_second = arguments.scrub_rate;
        master_config.disk_bytes_max = u64::from(arguments.disk_expansion) * self.memory.log_bytes;
        master_config.frames_max = u64::from(self.frames_max);
        ServerConfig {
            advertise,
            coordinator: self.coordinator,
            labels: arguments.label.clone(),
            links: links(arguments, listen),
            master: !arguments.no_master,
            master_config,
            backup_config: BackupConfig {
                is_own: false,
                segment_bytes: SEGMENT_BYTES,
                frames_max: self.frames_max,
                frames_grow_by: FRAMES_GROW_BY,
                buffers: self.mode,
                buffers_survive_power: arguments.buffers_survive_power,
                flush_interval: arguments.flush_interval,
                recovery_cache_bytes: self.memory.recovery_cache_bytes.max(u64::from(SEGMENT_BYTES)),
                found_cache_bytes: self.memory.recovery_cache_bytes / 2,
                needed_interval: NEEDED_INTERVAL,
                directory: arguments.dir().display().to_string(),
                mode: self.mode_text(),
            },
            detector: DetectorConfig {
                neighbour_timeout: arguments.neighbour_timeout,
                ..DetectorConfig::default()
            },
            resp: self.resp.clone(),
            memory_bytes: self.memory.total_bytes,
            read_speed: self.read_speed.megabytes_per_second,
            enlist_interval: ENLIST_INTERVAL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn mode_text(&self) -> String {
        match self.mode {
            Buffers::Reserved { count } => format!("{count} buffers in {}", self.buffers.path().display()),
            Buffers::InFrames => "page cache of the frames".to_owned(),
        }
    }

    /// Prints the facts that an operator must know about this process.
    pub fn tell(&self, arguments: &Server, listens: Option<SocketAddr>, admin: Option<SocketAddr>) {
        let interval = arguments.flush_interval;
        let mut lines = vec![
            format!("ramhold server {}", env!("CARGO_PKG_VERSION")),
            format!("  coordinator  {}", self.coordinator),
            format!("  listens      {}", listens.expect("a server always listens")),
            redis_line(arguments),
        ];
        let address = listens.expect("a server always listens");
        lines.extend(
            links(arguments, address)
                .iter()
                .map(|link| format!("  link         {} at {}", link.name, link.address.0)),
        );
        lines.extend([
            admin::line(admin),
            format!("  data         {}", arguments.dir().display()),
            format!("  memory       {}", self.memory.text()),
            format!("  processor    {}", processor::path()),
        ]);
        if self.frames_max > 0 {
            lines.push(format!(
                "  disk         {} frames, {}; reads {}",
                self.frames_max,
                bytes_text(u64::from(self.frames_max) * PLACE_BYTES),
                self.read_speed.text()
            ));
            lines.push(format!("  buffers      {}", self.mode_text()));
            lines.push(format!(
                "  promise      an acknowledged write survives the death of all processes at once; \
                 a power cut of all its backups can lose writes younger than {interval:?}, \
                 but none to a synced table"
            ));
        }
        crate::output::show(&lines.join("\n"));
    }
}

/// Serves metrics and health; gives the address, and the thread that ends when the loop is gone.
pub fn open_door(
    arguments: &Server,
    runtime: &mut Runtime<ServerNode>,
) -> Result<Option<(SocketAddr, JoinHandle<()>)>, Failure> {
    let Some(door) = arguments.admin.open(arguments.insecure_network)? else { return Ok(None) };
    let address = door.address();
    let dir = arguments.dir().to_owned();
    let seen =
        move |node: &ServerNode, now| ServerSeen { disk_free_bytes: free_space(&dir).ok(), ..node.seen(now) };
    let thread = door.serve(runtime, seen).map_err(admin::thread_failed)?;
    Ok(Some((address, thread)))
}

/// The links, at the port that the server listens at where none is given.
fn links(arguments: &Server, listen: SocketAddr) -> Vec<Link> {
    let port = |given: u16| if given == 0 { listen.port() } else { given };
    let link = |(name, address): &(String, SocketAddr)| Link {
        name: name.clone(),
        address: Address(SocketAddr::new(address.ip(), port(address.port()))),
    };
    arguments.link.iter().map(link).collect()
}

/// Whether a socket at an unspecified address accepts what comes to this one.
fn covers(listen: SocketAddr, address: SocketAddr) -> bool {
    let is_all = listen.ip().is_unspecified() && listen.is_ipv4() == address.is_ipv4();
    is_all && listen.port() == address.port()
}

fn check_links(links: &[(String, SocketAddr)]) -> Result<(), Failure> {
    if links.len() > LINK_COUNT_MAX {
        return Err(Failure::usage(format!(
            "a server has at most {LINK_COUNT_MAX} links; give fewer --link"
        )));
    }
    for (index, (name, address)) in links.iter().enumerate() {
        if address.ip().is_unspecified() {
            return Err(Failure::usage(format!(
                "--link {name}={}: others cannot reach it; give the address of this server in that network",
                address.ip()
            )));
        }
        if let Some((_, other)) = links[..index].iter().find(|(before, _)| before == name) {
            return Err(Failure::usage(format!(
                "--link {name} is given twice, with {} and {}; a network has one address of a server",
                other.ip(),
                address.ip()
            )));
        }
        if links[..index].iter().any(|(_, before)| before.ip() == address.ip()) {
            return Err(Failure::usage(format!(
                "--link {name}={}: another link has this address; each network has one of its own",
                address.ip()
            )));
        }
    }
    Ok(())
}

/// The coordinator's address. Refuses when others could not reach this process.
pub fn coordinator_for(arguments: &Server) -> Result<SocketAddr, Failure> {
    if arguments.bind.ip().is_unspecified() && arguments.advertise.is_none() {
        let text = format!(
            "others cannot reach {}; give an address at which they can with --advertise",
            arguments.bind
        );
        return Err(Failure::usage(text));
    }
    let named = arguments.coordinator.as_deref().expect("the parser requires it");
    let addresses = parse_addresses(named).map_err(|error| Failure::from(error).about("--coordinator"))?;
    Ok(*addresses.first().expect("a list of addresses is not empty"))
}

/// An address with a port: the given one, or one that is free now.
pub fn settle(bind: SocketAddr) -> Result<SocketAddr, Failure> {
    if bind.port() != 0 {
        return Ok(bind);
    }
    let free = TcpListener::bind(bind).and_then(|listener| listener.local_addr());
    free.map_err(|error| {
        Failure::usage(format!("cannot listen on {bind}: {error}; choose another address with --bind"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_covers_links_of_its_port_and_family() {
        // H1
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(covers(at("0.0.0.0:7401"), at("10.1.0.7:7401")));
        assert!(!covers(at("0.0.0.0:7401"), at("10.1.0.7:7402")));
        assert!(!covers(at("0.0.0.0:7401"), at("[fd00::1]:7401")));
        assert!(!covers(at("10.0.0.7:7401"), at("10.1.0.7:7401")));
    }

    #[test]
    fn a_port_is_found() {
        let found = settle("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(found.port() != 0);
    }
}
