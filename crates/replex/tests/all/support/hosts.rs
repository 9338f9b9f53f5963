//! Hosts, each with a network address and a disk of its own, as machines have them.
//!
//! A host is two namespaces, of the network and of mounts. They have no names: a process holds
//! them, which ends with this one, so nothing is left behind however a test ends, and any number of
//! tests may do this at once. A bridge in one more host, the *switch*, joins them; a test that
//! talks to them enters it. The addresses are those that RFC 2544 sets apart for tests, and no way
//! leads from there to any other network.
//!
//! Needs root, and the commands `ip`, `nft` and `mkfs.ext4`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use replex::cluster::Host;
use rustix::ioctl::{Setter, ioctl, opcode};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Of a disk. Its file has holes.
const DISK_BYTES: u64 = 2 << 30;
/// `EXT4_IOC_SHUTDOWN`, `_IOR('X', 125, __u32)` in the kernel's `fs/ext4/ext4.h`.
const SHUTDOWN: u32 = opcode::read::<u32>(b'X', 125);
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`: not even the journal that is in memory.
const NO_LOG_FLUSH: u32 = 2;
const SWITCH_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);

/// Hosts numbered from 0, and the network between them. Dropped, all of it is gone.
pub struct Hosts {
    hosts: Vec<Namespaces>,
    switch: Namespaces,
    folder: tempfile::TempDir,
}

impl Hosts {
    /// Makes so many. An error names the missing requirement.
    pub fn new(count: u8) -> Result<Hosts, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let switch = Namespaces::new()?;
        switch.run("ip link add bridge0 type bridge")?;
        switch.run(&format!("ip address add {SWITCH_ADDRESS}/24 dev bridge0"))?;
        switch.run("ip link set bridge0 up")?;
        let mut hosts = Hosts {
            hosts: Vec::new(),
            switch,
            folder,
        };
        for number in 0..count {
            hosts.add(number)?;
        }
        Ok(hosts)
    }

    fn add(&mut self, number: u8) -> Result<(), String> {
        let host = Namespaces::new()?;
        let (switch, id) = (&self.switch, host.holder.id());
        switch.run(&format!(
            "ip link add port{number} type veth peer name eth0 netns {id}"
        ))?;
        switch.run(&format!("ip link set port{number} master bridge0 up"))?;
        let address = address(usize::from(number));
        host.run(&format!("ip address add {address}/24 dev eth0"))?;
        host.run("ip link set lo up")?;
        host.run("ip link set eth0 up")?;
        host.run("nft add table inet cuts")?;
        host.run_words(&[
            "nft",
            "add chain inet cuts arrivals { type filter hook input priority 0; }",
        ])?;
        let image = self.image(usize::from(number));
        let file = File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(DISK_BYTES)
            .map_err(|error| error.to_string())?;
        host.run(&format!("mkfs.ext4 -q -F {}", image.display()))?;
        self.hosts.push(host);
        std::fs::create_dir(self.mount_point(usize::from(number)))
            .map_err(|error| error.to_string())?;
        self.mount(usize::from(number))
    }

    /// Has the calling thread and its child processes use the network of the switch.
    pub fn enter(&self) -> Result<(), String> {
        let path = format!("/proc/{}/ns/net", self.switch.holder.id());
        let file = File::open(path).map_err(|error| error.to_string())?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| error.to_string())
    }

    /// The parameters for a process of the cluster there.
    pub fn host(&self, number: usize) -> Host {
        Host {
            launcher: self.hosts[number].launcher(),
            address: IpAddr::V4(address(number)),
            folder: Some(self.mount_point(number).join("data")),
        }
    }

    /// No message of host `from` arrives at host `to` any more.
    pub fn cut(&self, from: usize, to: usize) {
        let rule = format!(
            "nft add rule inet cuts arrivals ip saddr {} drop",
            address(from)
        );
        self.hosts[to].run(&rule).unwrap();
    }

    /// Everything arrives again.
    pub fn heal(&self) {
        for host in &self.hosts {
            host.run("nft flush chain inet cuts arrivals").unwrap();
        }
    }

    /// Cuts the power of a disk. Data that was not synced is lost, and the disk is unusable before
    /// it is mounted again.
    pub fn cut_power(&self, number: usize) {
        let holder = self.hosts[number].holder.id();
        // As that host sees it.
        let place = self.mount_point(number).display().to_string();
        let disk = File::open(format!("/proc/{holder}/root{place}")).unwrap();
        #[allow(unsafe_code, reason = "the kernel's call has no other wrapper")]
        // SAFETY: it takes a pointer to 32 bits, and keeps none of it.
        let done = unsafe { ioctl(&disk, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) };
        done.unwrap();
    }

    /// Mounts a disk again that lost its power; no process may have files open on it.
    pub fn restore_power(&self, number: usize) {
        let place = self.mount_point(number).display().to_string();
        self.hosts[number].run(&format!("umount {place}")).unwrap();
        self.mount(number).unwrap();
    }

    fn mount(&self, number: usize) -> Result<(), String> {
        let (image, place) = (self.image(number), self.mount_point(number));
        let (image, place) = (image.display(), place.display());
        self.hosts[number].run(&format!("mount -o loop {image} {place}"))
    }

    fn image(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("image-{number}"))
    }

    fn mount_point(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("disk-{number}"))
    }
}

fn address(number: usize) -> Ipv4Addr {
    let last = u8::try_from(number + 1).unwrap();
    assert!(last < SWITCH_ADDRESS.octets()[3], "too many hosts");
    Ipv4Addr::new(198, 18, 0, last)
}

/// Two namespaces, and the process that holds them.
struct Namespaces {
    /// Ends when its stdin does, so with this process at the latest.
    holder: Child,
}

impl Namespaces {
    fn new() -> Result<Namespaces, String> {
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", "echo made; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let stdout = holder.stdout.take().expect("it was asked for");
        let namespaces = Namespaces { holder };
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        if line != "made\n" {
            return Err("making a network namespace needs root".to_owned());
        }
        Ok(namespaces)
    }

    fn launcher(&self) -> Vec<String> {
        let target = self.holder.id().to_string();
        let words = ["nsenter", "--target", &target, "--net", "--mount", "--"];
        words.map(str::to_owned).to_vec()
    }

    /// Runs a command there; an error has its message.
    fn run(&self, line: &str) -> Result<(), String> {
        self.run_words(&line.split(' ').collect::<Vec<_>>())
    }

    fn run_words(&self, words: &[&str]) -> Result<(), String> {
        let launcher = self.launcher();
        let output = Command::new(&launcher[0])
            .args(&launcher[1..])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", launcher[0]))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{}`: {}", words.join(" "), message.trim()))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
