//! Reads a topic to its end and prints the throughput: `cargo run --release --example read -- HOST:PORT TOPIC [GROUP]`.

use std::time::{Duration, Instant};

use grete_client::{Consumer, ConsumerConfig, Dispatcher, NextJob, Start, WaitMode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let bootstrap = arguments.next().ok_or("give HOST:PORT")?;
    let topic = arguments.next().ok_or("give a topic")?;
    let mut pairs = vec![("bootstrap.servers".to_owned(), bootstrap)];
    let group = arguments.next();
    pairs.extend(group.clone().map(|group| ("group.id".to_owned(), group)));
    let dispatcher = Dispatcher::new(WaitMode::Parked)?;
    let consumer = Consumer::start(ConsumerConfig::from_pairs(&pairs)?, &dispatcher, Vec::new())?;
    if group.is_some() {
        consumer.subscribe(vec![topic])?;
    } else {
        let partitions = consumer.partitions(&topic, Duration::from_secs(10))?;
        consumer.assign(partitions.into_iter().map(|p| (topic.clone(), p, Start::Earliest)).collect())?;
    }
    let mut worker = dispatcher.worker_context("main", 0);
    worker.set_max_messages(Some(1_000_000));
    let (mut done, mut records, mut bytes, mut started) = (None, 0_usize, 0_usize, None);
    loop {
        let next = dispatcher.next(&mut worker, done.take().as_ref(), Some(Duration::from_secs(3)))?;
        for grete_client::TimestampedLogEvent { event: notice, .. } in dispatcher.log_events().drain() {
            eprintln!("{:?} {}: {}", notice.level, notice.name, notice.message);
        }
        match next {
            NextJob::Job(job) => {
                let started = started.get_or_insert_with(Instant::now);
                if let Some(batch) = job.batch {
                    records += batch.rows.len();
                    bytes +=
                        batch.rows.clone().filter_map(|row| batch.columns.value(row)).map(<[u8]>::len).sum::<usize>();
                    if batch.next_offset >= batch.high_watermark {
                        let seconds = started.elapsed().as_secs_f64();
                        println!("{records} records, {bytes} bytes, {:.0} records/s", records as f64 / seconds);
                    }
                }
                done = Some(job.token);
            }
            _ => break,
        }
    }
    if let Some(error) = dispatcher.fatal() {
        return Err(error.into());
    }
    if group.is_some() {
        consumer.commit(None, Duration::from_secs(5))?;
    }
    consumer.close(Duration::from_secs(5))?;
    Ok(())
}
