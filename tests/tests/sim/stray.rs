//! A sender of an epoch that is long over, on a machine that nobody thinks of any more: again and
//! again it calls whoever listens for data. Nobody may take what it brings (fence F8).

use std::sync::Arc;
use std::time::Duration;

use millstream_coordination::protocol::{ChannelToken, DataAddress};
use millstream_env::Env;
use millstream_rpc::data::{DataMessage, Hello, ProcessIdentity, connect_data, exchange_data};
use millstream_types::{Epoch, Incarnation, JobId, TaskmanagerId};
use tokio::sync::mpsc;

use crate::options::FIRST_DATA_PORT;
use crate::world::World;

const PAUSE: Duration = Duration::from_millis(700);
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// The sender, for ever.
pub async fn stray(env: Env, world: Arc<World>) {
    let hosts: Vec<String> = world.options.taskmanager_names().collect();
    let mut hosts = hosts.iter().cycle();
    loop {
        env.clock().sleep(PAUSE).await;
        let (Some(job), Some(host)) = (world.observed.get().job, hosts.next()) else {
            continue;
        };
        let called = env.clock().timeout(CALL_TIMEOUT, call(&env, job, host));
        if matches!(called.await, Ok(Some(()))) {
            let text = format!("F8: {host} takes data of an epoch that is over");
            world.observed.accuse(text);
        }
    }
}

/// Some if it was welcomed.
async fn call(env: &Env, job: JobId, host: &str) -> Option<()> {
    let address = DataAddress {
        host: host.to_owned(),
        port: FIRST_DATA_PORT,
    };
    let connection = connect_data(env, &address, CALL_TIMEOUT).await.ok()?;
    let (outgoing, to_send) = mpsc::channel(1);
    let identity = |name: &str| ProcessIdentity {
        taskmanager: TaskmanagerId::new(name).unwrap(),
        incarnation: Incarnation(0),
    };
    let hello = Hello {
        job,
        epoch: Epoch(0),
        from: identity("stray"),
        to: identity(host),
        token: ChannelToken(0),
    };
    outgoing.send(DataMessage::Hello(hello)).await.ok()?;
    let mut incoming = exchange_data(&connection, to_send).await.ok()?;
    let answer = incoming.next().await.ok()??;
    matches!(answer, DataMessage::Welcome).then_some(())
}
