//! The unit of systemd: what the service may do, and nothing else.
use anyhow::bail;
use std::path::Path;

/// Its name.
pub const NAME: &str = "kasuri-flight.service";
/// Its file.
pub const PATH: &str = "/etc/systemd/system/kasuri-flight.service";

/// Why each capability is there: `docs/guide/flight.md` has the table.
const CAPABILITIES: [&str; 9] = [
    "CAP_PERFMON",
    "CAP_SYS_PTRACE",
    "CAP_DAC_READ_SEARCH",
    "CAP_DAC_OVERRIDE",
    "CAP_CHECKPOINT_RESTORE",
    "CAP_CHOWN",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SYS_NICE",
];

/// The unit.
///
/// # Errors
/// When a word cannot stand in a unit.
pub fn text(program: &Path, dir: &Path, words: &[String]) -> anyhow::Result<String> {
    let program = word(&program.to_string_lossy())?;
    let dir = word(&dir.to_string_lossy())?;
    let words = words.iter().map(|text| word(text)).collect::<anyhow::Result<Vec<String>>>()?;
    Ok(format!(
        "\
[Unit]
Description=Kasuri flight recorder: the last seconds of the whole system, saved when something goes wrong

[Service]
ExecStart={program} flight run {}
Restart=on-failure
RestartSec=10
TimeoutStopSec=90
StateDirectory=kasuri
StateDirectoryMode=0700
CacheDirectory=kasuri
Environment=XDG_CACHE_HOME=/var/cache/kasuri
UMask=0077
MemoryMax=2G
CPUWeight=20
TasksMax=64
CapabilityBoundingSet={}
NoNewPrivileges=yes
ProtectSystem=strict
ReadOnlyPaths=/proc/sys /sys
ReadWritePaths={dir} /dev/shm -/sys/kernel/tracing -/sys/kernel/debug/tracing
ProtectHome=read-only
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
IPAddressDeny=any
IPAddressAllow=localhost
RestrictNamespaces=yes
DevicePolicy=closed
SystemCallFilter=~@clock @cpu-emulation @module @mount @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
",
        words.join(" "),
        CAPABILITIES.join(" "),
    ))
}

/// A word of a command line, as systemd.service(5) reads it: `%` and `$` are its own, so they are doubled.
fn word(text: &str) -> anyhow::Result<String> {
    if text.chars().any(char::is_control) {
        bail!("{text:?}: has control characters, which a unit cannot hold");
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@=".contains(c);
    if text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!("\"{}\"", text.replace('%', "%%").replace('$', "$$")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        assert_eq!(
            word("--on-log=/a b/c=x$y%z\"\\d").unwrap(),
            "\"--on-log=/a b/c=x$$y%%z\\\"\\\\d\""
        );
        assert_eq!(word("--keep=10s").unwrap(), "--keep=10s");
        assert!(word("a\nExecStartPre=/bin/evil").is_err());
    }
}
