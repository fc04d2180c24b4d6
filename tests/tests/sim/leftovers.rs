//! What is left in storage of a job that ended: its own objects, and nothing of its checkpoints,
//! since a job that finished keeps none (F171).

use futures::TryStreamExt;
use futures::executor::block_on;
use millstream_snapshot::names::{self, Named};
use millstream_types::{JobId, ObjectName};
use object_store::ObjectStore;

use crate::recorder::Recorder;

/// What is not yet as it should be: names that should be gone, or a result that should be there.
pub fn left_over(store: &Recorder, job: JobId) -> Vec<String> {
    let listed = store.objects().list(None).try_collect::<Vec<_>>();
    let listed = block_on(listed).unwrap();
    let all = listed.into_iter().map(|object| object.location.to_string());
    let all: Vec<String> = all.collect();
    if !all.contains(&format!("{job}/result")) {
        // The mark comes before the result.
        return vec![format!("the result of {job} is not there, something")];
    }
    let gone = all.into_iter().filter(|name| should_be_gone(name, job));
    gone.collect()
}

fn should_be_gone(name: &str, job: JobId) -> bool {
    let Ok(name) = ObjectName::new(name) else {
        return false;
    };
    if names::job_of_uncleaned(&name) == Some(job) {
        return true;
    }
    let inside = name.as_str().strip_prefix(&format!("{job}/"));
    let inside = inside.and_then(|name| ObjectName::new(name).ok());
    match inside.as_ref().and_then(names::parse) {
        Some(Named::Metadata(_) | Named::Private(_) | Named::Shared(_) | Named::Unfinished(_)) => {
            true
        }
        Some(Named::Job | Named::Result | Named::Chain(_)) | None => false,
    }
}
