//! The address under which others reach this machine's job processes (HND-079).

use std::net::IpAddr;

/// How the advertised address is chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Advertise {
    /// `taskmanager.host`.
    pub(crate) configured: Option<String>,
    /// `taskmanager.bind-host`, where it is an address: nobody else reaches a loopback listener.
    pub(crate) bind: Option<IpAddr>,
}

impl Advertise {
    /// What was configured; else the one address that data ports listen on; else this machine's
    /// address on the connection to the jobmanager, which others reach as the jobmanager does. An
    /// unspecified address is never advertised.
    pub(crate) fn host(&self, local_ip: Option<IpAddr>) -> String {
        if let Some(configured) = &self.configured {
            return configured.clone();
        }
        let is_specific = |ip: &IpAddr| !ip.is_unspecified();
        let ip = self
            .bind
            .filter(is_specific)
            .or(local_ip.filter(is_specific));
        ip.map_or_else(
            || "localhost".to_owned(),
            |ip| ip.to_canonical().to_string(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(configured: Option<&str>, bind: &str, local: Option<&str>) -> String {
        let advertise = Advertise {
            configured: configured.map(str::to_owned),
            bind: bind.parse().ok(),
        };
        advertise.host(local.map(|ip| ip.parse().unwrap()))
    }

    // HND-079, cases 1, 2 and 4.
    #[test]
    fn the_address_of_the_control_connection_is_advertised_and_never_an_unspecified_one() {
        assert_eq!(host(None, "0.0.0.0", Some("10.0.0.7")), "10.0.0.7");
        assert_eq!(host(None, "::", Some("fd00::7")), "fd00::7");
        assert_eq!(host(None, "::", Some("::ffff:10.0.0.7")), "10.0.0.7");
        assert_eq!(host(None, "tm-1", Some("10.0.0.7")), "10.0.0.7");
        assert_eq!(host(None, "0.0.0.0", Some("0.0.0.0")), "localhost");
        assert_eq!(host(None, "0.0.0.0", None), "localhost");
    }

    #[test]
    fn what_is_configured_wins_and_a_listener_at_one_address_is_reached_there() {
        assert_eq!(host(Some("tm-1"), "0.0.0.0", Some("10.0.0.7")), "tm-1");
        assert_eq!(host(None, "127.0.0.1", Some("10.0.0.7")), "127.0.0.1");
        assert_eq!(host(None, "10.0.0.9", Some("10.0.0.7")), "10.0.0.9");
    }
}
