package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A goroutine has no thread of its own: there are no switches of the caller to count.
type syncReport struct {
	Pass            string  `json:"pass"`
	Sent            int64   `json:"sent"`
	LatenciesNs     []int64 `json:"latencies_ns"`
	CPUSeconds      float64 `json:"cpu_seconds"`
	ProcessSwitches int64   `json:"process_switches"`
	PeakRSS         int64   `json:"peak_rss"`
	Version         string  `json:"version"`
}

type manyReport struct {
	Pass       string  `json:"pass"`
	Sent       int64   `json:"sent"`
	Counted    int64   `json:"counted"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	PeakRSS    int64   `json:"peak_rss"`
	Version    string  `json:"version"`
}

// producer is idempotent with acks=all, as are kgo's defaults. One partition is named, more are left to the partitioner.
func producer(bootstrap string, partitions int64, options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(bootstrap))
	if partitions == 1 {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fail(err)
	}
	return client
}

func produceSync(words []string) {
	warmUp, records := number(words[3]), number(words[4])
	value := bytes.Repeat([]byte("x"), int(number(words[5])))
	client := producer(words[0], number(words[2]), kgo.ProducerLinger(0))
	defer client.Close()
	send := func() {
		if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: words[1], Value: value}).FirstErr(); err != nil {
			fail(err)
		}
	}
	for range warmUp {
		send()
	}
	result := syncReport{Pass: "only", Sent: warmUp + records, Version: version()}
	result.LatenciesNs = make([]int64, 0, records)
	process, cpu := allSwitches(), cpuSeconds()
	for range records {
		start := time.Now()
		send()
		result.LatenciesNs = append(result.LatenciesNs, time.Since(start).Nanoseconds())
	}
	result.CPUSeconds = cpuSeconds() - cpu
	result.ProcessSwitches = allSwitches() - process
	result.PeakRSS = peakRSS()
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail(err)
	}
}

// Each pass is a client of its own in the same process, so that the last one runs on a warm runtime and heap.
func produceManyPasses(words []string) {
	passes := number(words[6])
	for pass := int64(1); pass <= passes; pass++ {
		result := produceMany(words)
		result.Pass = passName(pass, passes)
		if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
			fail(err)
		}
	}
}

func produceMany(words []string) manyReport {
	warmUp, records := number(words[3]), number(words[4])
	value := bytes.Repeat([]byte("x"), int(number(words[5])))
	client := producer(words[0], number(words[2]), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchMaxBytes(500_000), kgo.MaxBufferedRecords(1_000_000))
	defer client.Close()
	send := func(count int64) {
		acknowledged := atomic.Int64{}
		promise := func(_ *kgo.Record, err error) {
			if err == nil {
				acknowledged.Add(1)
			}
		}
		for range count {
			client.Produce(context.Background(), &kgo.Record{Topic: words[1], Value: value}, promise)
		}
		if err := client.Flush(context.Background()); err != nil {
			fail(err)
		}
		if acknowledged.Load() != count {
			fail(fmt.Errorf("%d of %d records were acknowledged", acknowledged.Load(), count))
		}
	}
	send(warmUp)
	result := manyReport{Sent: warmUp + records, Counted: records, Version: version()}
	wall, cpu := time.Now(), cpuSeconds()
	send(records)
	result.Seconds = time.Since(wall).Seconds()
	result.CPUSeconds = cpuSeconds() - cpu
	result.PeakRSS = peakRSS()
	return result
}
