//! Who submits the job, and looks after it as anybody would: over gRPC, again and again.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use millstream_coordination::job::JobStatus;
use millstream_env::Env;
use millstream_rpc::connect;
use millstream_rpc::jobs::JobClient;
use millstream_types::JobId;
use parking_lot::Mutex;

use crate::clock;
use crate::faults::Kind;
use crate::host::Control;
use crate::stray::stray;
use crate::world::{JOBMANAGER, RPC_PORT, World};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(250);

/// What was seen of the job. Cloning shares it.
#[derive(Clone, Default)]
pub struct Observed(Arc<Mutex<Seen>>);

/// The last that was seen.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    pub job: Option<JobId>,
    pub status: Option<JobStatus>,
    /// When that was.
    pub at: Duration,
    /// How it ended, in words.
    pub end: Option<String>,
    /// What a stray sender was let do.
    pub accused: Option<String>,
}

impl Observed {
    pub fn get(&self) -> Seen {
        self.0.lock().clone()
    }

    /// Something happened that must not.
    pub fn accuse(&self, text: String) {
        self.0.lock().accused = Some(text);
    }
}

/// The user, and what else is on his network, for ever.
pub async fn user(world: Arc<World>, control: Control) -> turmoil::Result {
    let (env, _signals) = control.begin(&world);
    let strays = world.options.kinds.contains(&Kind::Stray);
    let stray = match strays {
        true => stray(env.clone(), Arc::clone(&world)).left_future(),
        false => std::future::pending().right_future(),
    };
    futures::join!(stray, look_after(&env, &world));
    Ok(())
}

/// Submits the job and looks after it, for ever.
async fn look_after(env: &Env, world: &World) {
    loop {
        if let Some(client) = client(env).await {
            ask(env, world, &client).await;
        }
        env.clock().sleep(POLL).await;
    }
}

async fn client(env: &Env) -> Option<JobClient> {
    let address = format!("{JOBMANAGER}:{RPC_PORT}");
    let connection = connect(env, &address, CONNECT_TIMEOUT).await;
    Some(JobClient::new(&connection.ok()?))
}

/// Asks until there is no answer.
async fn ask(env: &Env, world: &World, client: &JobClient) {
    loop {
        let asked = env.clock().timeout(CALL_TIMEOUT, once(world, client));
        if !matches!(asked.await, Ok(Some(()))) {
            return;
        }
        env.clock().sleep(POLL).await;
    }
}

async fn once(world: &World, client: &JobClient) -> Option<()> {
    let job = world.observed.get().job;
    let Some(job) = job else {
        let file = world.options.job_file();
        // The same id each time: an answer that was lost may have been a yes.
        let submitted = client.submit_file("ledger", file, []).await.ok()?;
        world.observed.0.lock().job = Some(submitted.job);
        return Some(());
    };
    let info = client.get(job).await.ok()?;
    let mut seen = world.observed.0.lock();
    seen.status = Some(info.summary.status);
    seen.at = clock::elapsed();
    seen.end = info.end.map(|end| end.headline);
    Some(())
}
