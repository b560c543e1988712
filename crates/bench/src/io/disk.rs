//! The loads on the real disk, and its model.

use messina::iotune::scratch::ScratchDisk;
use messina::iotune::{self, Depths};
use runtime::{DiskModel, FileError};

use super::loads::{Background, Curve};
use super::{IoArguments, model_of_file};
use crate::{BenchError, machine};

/// Duration of the disk measurement if the disk's properties are not given, in microseconds.
const IOTUNE_US: u64 = 20_000_000;

/// Prepares a scratch file on the disk and the model of the disk.
pub fn prepare(arguments: &IoArguments) -> Result<(ScratchDisk, DiskModel), BenchError> {
    let scratch = iotune::prepare(&arguments.dir, arguments.file_mib << 20, IOTUNE_US, 1)?;
    let model = match &arguments.io_properties {
        Some(path) => model_of_file(path, &arguments.dir)?,
        None => iotune::find_model(&scratch, Depths::default(), IOTUNE_US)?,
    };
    Ok((scratch, model))
}

pub fn run(
    arguments: &IoArguments,
    core: usize,
    scratch: ScratchDisk,
    model: DiskModel,
) -> Result<Curve, BenchError> {
    let scratch = scratch.restarted(arguments.disk(model))?;
    let for_us = (arguments.seconds * 1e6) as u64;
    let stolen_us = || machine::stolen_us(core);
    let curve = Curve::measured("disk", model, arguments.rounds, stolen_us, |loads, beside| {
        let off = beside == Background::Off;
        scratch.on_all(move |shard| async move {
            shard.disk().set_bypassed(off);
            Ok::<_, FileError>(())
        })?;
        scratch.measure(loads, for_us.max(1))
    });
    scratch.close()?;
    curve
}
