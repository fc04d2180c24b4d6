//! Hosts and ports.

use std::fmt;
use std::net::IpAddr;

use super::ValueFault;
use super::read::refused;

/// A host name or an IP address, without port and without brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host(String);

impl Host {
    /// Reads a host to listen on: a name, an IPv4 or an IPv6 address (with or without brackets).
    ///
    /// # Errors
    /// Why the text is no host.
    pub fn parse(text: &str) -> Result<Self, ValueFault> {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self(ip.to_string()));
        }
        let label_is_good = |label: &str| {
            (1..=63).contains(&label.len())
                && label
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let looks_like_ipv4 = text.chars().all(|c| c.is_ascii_digit() || c == '.');
        if text.len() > 253 || looks_like_ipv4 || !text.split('.').all(label_is_good) {
            return Err(refused(
                text,
                "expected a host name or an IP address, without a port",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a host that others connect to: not a wildcard such as `0.0.0.0`.
    ///
    /// # Errors
    /// Why the text is no such host.
    pub fn advertised(text: &str) -> Result<Self, ValueFault> {
        let host = Self::parse(text)?;
        match host.ip() {
            Some(ip) if ip.is_unspecified() => Err(refused(
                text,
                "nobody can connect to this address; it is for bind-host keys",
            )),
            _ => Ok(host),
        }
    }

    /// The name or address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address, if it is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }

    /// True if only this machine can reach it. A name counts as loopback only if it is `localhost`.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.ip() {
            Some(ip) => ip.to_canonical().is_loopback(),
            None => self.0.eq_ignore_ascii_case("localhost"),
        }
    }

    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn with_port(&self, port: u16) -> String {
        match self.ip() {
            Some(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
            _ => format!("{}:{port}", self.0),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Ports to try in order: `6121`, `50100-50200`, `50100-50200,50300`; `0` is any free one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRange(Vec<(u16, u16)>);

impl PortRange {
    /// Reads ports.
    ///
    /// # Errors
    /// Why the text names no ports.
    pub fn parse(text: &str) -> Result<Self, ValueFault> {
        let fault = || refused(text, "expected ports like 0, 6121 or 50100-50200,50300");
        let port = |text: &str| {
            let text = text.trim();
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if digits {
                text.parse::<u16>().map_err(|_| fault())
            } else {
                Err(fault())
            }
        };
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (port(first)?, port(last)?),
                None => (port(part)?, port(part)?),
            };
            if first > last || (first == 0 && last != 0) {
                return Err(fault());
            }
            ranges.push((first, last));
        }
        let any = ranges.iter().any(|(first, _)| *first == 0);
        if any && ranges.len() > 1 {
            return Err(fault());
        }
        Ok(Self(ranges))
    }

    /// The ports in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_in_every_spelling_and_a_name_is_not_trusted() {
        for host in [
            "127.0.0.1",
            "127.3.2.1",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
            "localhost",
        ] {
            assert!(Host::parse(host).expect(host).is_loopback(), "{host}");
        }
        for host in [
            "0.0.0.0",
            "::",
            "10.0.0.1",
            "jobmanager",
            "localhost.example",
        ] {
            assert!(!Host::parse(host).expect(host).is_loopback(), "{host}");
        }
    }

    #[test]
    fn hosts_have_no_port_and_an_advertised_one_is_no_wildcard() {
        for text in [
            "host:80",
            "http://x",
            "a b",
            "300.1.1.1",
            "1.2.3",
            "-x",
            "",
            "a..b",
        ] {
            assert!(Host::parse(text).is_err(), "{text}");
        }
        assert!(Host::advertised("0.0.0.0").is_err());
        assert!(Host::advertised("::").is_err());
        assert_eq!(
            Host::parse("::1").expect("ip").with_port(6123),
            "[::1]:6123"
        );
        assert_eq!(Host::parse("jm").expect("name").with_port(6123), "jm:6123");
    }

    #[test]
    fn port_ranges_keep_their_order_and_refuse_nonsense() {
        let ports = PortRange::parse("50100-50102, 50300").expect("ports");
        assert_eq!(
            ports.iter().collect::<Vec<_>>(),
            [50100, 50101, 50102, 50300]
        );
        assert_eq!(ports.to_string(), "50100-50102,50300");
        for text in ["", "70000", "5-3", "0-5", "0,5", "a", "1-2-3", "+5"] {
            assert!(PortRange::parse(text).is_err(), "{text}");
        }
    }
}
