use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Both networks: what holds for one holds for the other.
fn networks() -> [Arc<dyn Net>; 2] {
    [Arc::new(TcpNet::default()), Arc::new(MemoryNet::default())]
}

async fn listen(net: &Arc<dyn Net>, ip: IpAddr) -> Listener {
    net.listen(SocketAddr::new(ip, 0)).await.unwrap()
}

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

#[tokio::test]
async fn bytes_go_both_ways_and_each_end_knows_the_other() {
    for (net, ip) in networks()
        .into_iter()
        .flat_map(|net| [(net.clone(), V4), (net, V6)])
    {
        let mut listener = listen(&net, ip).await;
        let (client, server) = tokio::join!(net.connect(listener.local_addr()), listener.accept());
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        assert_eq!(client.peer_addr(), server.local_addr());
        assert_eq!(client.local_addr(), server.peer_addr());

        client.write_all(b"ping").await.unwrap();
        let mut read = [0; 4];
        server.read_exact(&mut read).await.unwrap();
        server.write_all(&read).await.unwrap();
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ping");

        drop(server);
        assert_eq!(
            client.read(&mut read).await.unwrap(),
            0,
            "a closed peer is the end"
        );
    }
}

#[tokio::test]
async fn nobody_listening_is_an_error_that_names_the_address() {
    for net in networks() {
        let listener = listen(&net, V4).await;
        let addr = listener.local_addr();
        drop(listener);
        let error = net.connect(addr).await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot connect to {addr}"));
    }
}

#[tokio::test]
async fn a_taken_address_is_refused_and_a_dropped_listener_frees_it() {
    for net in networks() {
        let listener = listen(&net, V4).await;
        let addr = listener.local_addr();
        assert!(matches!(
            net.listen(addr).await,
            Err(NetError::Listen { .. })
        ));
        drop(listener);
        net.listen(addr).await.unwrap();
    }
}

#[tokio::test]
async fn a_range_gives_its_first_free_port_and_names_itself_when_full() {
    for net in networks() {
        let taken = listen(&net, V4).await.local_addr().port();
        let first = net.listen_in(V4, taken..=taken).await.unwrap();
        assert_eq!(first.local_addr().port(), taken);
        let error = net.listen_in(V4, taken..=taken).await.unwrap_err();
        assert!(
            matches!(error, NetError::NoFreePort { first, last, .. } if (first, last) == (taken, taken))
        );
    }
}

#[tokio::test]
async fn hosts_resolve_and_connect_by_name_or_address() {
    for net in networks() {
        let mut listener = listen(&net, V4).await;
        let port = listener.local_addr().port();
        for host in ["localhost", "127.0.0.1"] {
            let conn = net.connect_host(host, port).await.unwrap();
            assert_eq!(conn.peer_addr(), SocketAddr::new(V4, port));
            listener.accept().await.unwrap();
        }
        assert_eq!(
            net.resolve("[::1]", 80).await.unwrap(),
            [SocketAddr::new(V6, 80)]
        );
        let error = net.resolve("no-such-host.invalid", 80).await.unwrap_err();
        assert!(
            error.to_string().contains("no-such-host.invalid"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_listener_is_a_stream_of_connections() {
    for net in networks() {
        let listener = listen(&net, V4).await;
        let addr = listener.local_addr();
        let mut incoming = std::pin::pin!(listener.into_stream());
        for _ in 0..3 {
            let client = net.connect(addr).await.unwrap();
            let server = incoming.next().await.unwrap().unwrap();
            assert_eq!(server.peer_addr(), client.local_addr());
        }
    }
}

#[tokio::test]
async fn a_memory_host_is_tried_address_by_address() {
    let memory = MemoryNet::default();
    memory.add_host("jobmanager", vec![V6, V4]);
    let net: Arc<dyn Net> = Arc::new(memory);
    let listener = net.listen("127.0.0.1:6123".parse().unwrap()).await.unwrap();
    let conn = net.connect_host("jobmanager", 6123).await.unwrap();
    assert_eq!(conn.peer_addr(), listener.local_addr());
}
