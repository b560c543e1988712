//! Object storage as the target of backups, by the crate `object_store`: S3 and its relatives, Google Cloud
//! Storage, Azure.
//!
//! Keys, region and endpoint come from the environment, by the names that the services' own tools use
//! (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_KEY`, …). The crate
//! retries requests that failed for a reason that may pass. An object above [`PART_BYTES_MIN`] is uploaded in
//! parts; it appears when all of them are there.

use std::time::Duration;

use futures_util::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, ClientOptions, Error, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload,
    RetryConfig,
};
use tokio::runtime::Runtime;

use super::{Chunks, Target, wrong_length};
use crate::error::BackupError;

/// Bytes of a part of an upload, at least. Parts of large objects are larger, because services allow 10,000.
const PART_BYTES_MIN: u64 = 8 << 20;
/// Number of parts that an object has at most.
const PARTS_MAX: u64 = 9_000;
/// How often, and for how long, a request is retried.
const RETRIES: usize = 8;
const RETRY_TIME: Duration = Duration::from_secs(120);
/// Limit of one request, including its body.
const REQUEST_TIME: Duration = Duration::from_secs(120);

/// See the head of this file.
pub struct ObjectTarget {
    url: String,
    prefix: ObjectPath,
    store: Box<dyn ObjectStore>,
    runtime: Runtime,
}

impl ObjectTarget {
    /// `url`: scheme, bucket or container, and prefix.
    ///
    /// # Errors
    /// The URL or the environment is wrong.
    pub fn open(url: &str) -> Result<Self, BackupError> {
        let wrong = |error: &dyn std::fmt::Display| BackupError(format!("{url} cannot be used: {error}"));
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(15),
                base: 2.0,
            },
            max_retries: RETRIES,
            retry_timeout: RETRY_TIME,
        };
        // Someone who names an endpoint without TLS wants it: a local server, a gateway on the same host.
        let client = || ClientOptions::new().with_timeout(REQUEST_TIME).with_allow_http(true);
        // Fails if the process has one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let store: Box<dyn ObjectStore> = match scheme {
            "s3" | "s3a" => {
                let builder = AmazonS3Builder::from_env().with_client_options(client()).with_retry(retry);
                Box::new(builder.with_url(url).build().map_err(|error| wrong(&error))?)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_client_options(client());
                Box::new(builder.with_retry(retry).with_url(url).build().map_err(|error| wrong(&error))?)
            }
            _ => {
                let builder = MicrosoftAzureBuilder::from_env().with_client_options(client());
                Box::new(builder.with_retry(retry).with_url(url).build().map_err(|error| wrong(&error))?)
            }
        };
        let after_scheme = url.split_once("://").map_or("", |(_, rest)| rest);
        let prefix = after_scheme.split_once('/').map_or("", |(_, prefix)| prefix);
        let prefix = ObjectPath::parse(prefix).map_err(|error| wrong(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| wrong(&error))?;
        Ok(Self { url: url.to_string(), prefix, store, runtime })
    }

    fn path(&self, name: &str) -> ObjectPath {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    fn failed(&self, what: &str, name: &str, error: &Error) -> BackupError {
        BackupError(format!("cannot {what} {name} in {}: {error}", self.url))
    }

    async fn put_parts(
        &self,
        name: &str,
        first: Vec<u8>,
        bytes: u64,
        chunks: &mut Chunks<'_>,
    ) -> Result<(), BackupError> {
        let failed = |error: Error| self.failed("write", name, &error);
        let mut upload = self.store.put_multipart(&self.path(name)).await.map_err(failed)?;
        let sent = send_parts(&mut *upload, first, bytes, chunks, |error| self.failed("write", name, &error));
        match sent.await.and_then(|sent| match sent == bytes {
            true => Ok(()),
            false => Err(wrong_length(name, bytes, sent)),
        }) {
            Ok(()) => upload.complete().await.map(drop).map_err(failed),
            Err(error) => {
                // Parts that remain cost money until the bucket's rule for unfinished uploads removes them.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }
}

/// Bytes of the parts of an object.
fn part_bytes(bytes: u64) -> u64 {
    PART_BYTES_MIN.max(bytes.div_ceil(PARTS_MAX))
}

/// The next part of an object of `bytes` bytes: chunks until there are enough or no more.
fn next_part(bytes: u64, chunks: &mut Chunks<'_>) -> Result<Vec<u8>, BackupError> {
    let mut part = vec![];
    while (part.len() as u64) < part_bytes(bytes) {
        match chunks()? {
            Some(chunk) => part.extend_from_slice(&chunk),
            None => break,
        }
    }
    Ok(part)
}

/// Sends the parts one after the other; returns their bytes.
async fn send_parts(
    upload: &mut dyn MultipartUpload,
    mut part: Vec<u8>,
    bytes: u64,
    chunks: &mut Chunks<'_>,
    failed: impl Fn(Error) -> BackupError,
) -> Result<u64, BackupError> {
    let mut sent = 0;
    while !part.is_empty() {
        sent += part.len() as u64;
        upload.put_part(PutPayload::from(part)).await.map_err(&failed)?;
        part = if sent < bytes { next_part(bytes, chunks)? } else { vec![] };
    }
    Ok(sent)
}

impl Target for ObjectTarget {
    fn name(&self) -> String {
        self.url.clone()
    }

    fn put(&self, name: &str, bytes: u64, chunks: &mut Chunks<'_>) -> Result<(), BackupError> {
        let first = next_part(bytes, chunks)?;
        self.runtime.block_on(async {
            if first.len() as u64 >= part_bytes(bytes) && bytes > first.len() as u64 {
                return self.put_parts(name, first, bytes, chunks).await;
            }
            if first.len() as u64 != bytes {
                return Err(wrong_length(name, bytes, first.len() as u64));
            }
            let put = self.store.put(&self.path(name), PutPayload::from(first)).await;
            put.map(drop).map_err(|error| self.failed("write", name, &error))
        })
    }

    fn read(
        &self,
        name: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<Option<u64>, BackupError> {
        self.runtime.block_on(async {
            let failed = |error: Error| self.failed("read", name, &error);
            let found = match self.store.get(&self.path(name)).await {
                Err(Error::NotFound { .. }) => return Ok(None),
                found => found.map_err(failed)?,
            };
            let mut stream = found.into_stream();
            let mut total = 0;
            while let Some(part) = stream.next().await {
                let part = part.map_err(failed)?;
                sink(&part)?;
                total += part.len() as u64;
            }
            Ok(Some(total))
        })
    }

    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, BackupError> {
        self.runtime.block_on(async {
            let mut stream = self.store.list(Some(&self.path(dir)));
            let mut found = vec![];
            while let Some(of) = stream.next().await {
                let of = of.map_err(|error| self.failed("list", dir, &error))?;
                let parts = of.location.prefix_match(&self.prefix);
                let parts: Vec<_> =
                    parts.into_iter().flatten().map(|part| part.as_ref().to_string()).collect();
                found.push((parts.join("/"), of.size));
            }
            found.sort();
            Ok(found)
        })
    }

    fn remove(&self, name: &str) -> Result<(), BackupError> {
        self.runtime.block_on(async {
            match self.store.delete(&self.path(name)).await {
                Err(Error::NotFound { .. }) => Ok(()),
                removed => removed.map_err(|error| self.failed("remove", name, &error)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_objects_have_large_parts() {
        assert_eq!(part_bytes(0), PART_BYTES_MIN);
        assert_eq!(part_bytes(PARTS_MAX * PART_BYTES_MIN), PART_BYTES_MIN);
        let huge = 5_u64 << 40;
        assert!(huge.div_ceil(part_bytes(huge)) <= 10_000);
    }
}
