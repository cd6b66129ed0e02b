package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type report struct {
	Pass       string  `json:"pass"`
	Records    int64   `json:"records"`
	Counted    int64   `json:"counted"`
	Bytes      int64   `json:"bytes"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	PeakRSS    int64   `json:"peak_rss"`
	Version    string  `json:"version"`
}

// consumePasses: BOOTSTRAP TOPIC PARTITIONS RECORDS PASSES
//
// Each pass is a client of its own in the same process, so that the last one runs on a warm runtime and heap.
func consumePasses(words []string) {
	partitions, total, passes := number(words[2]), number(words[3]), number(words[4])
	for pass := int64(1); pass <= passes; pass++ {
		result := consume(words[0], words[1], int32(partitions), total)
		result.Pass = passName(pass, passes)
		if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
			fail(err)
		}
	}
}

func consume(bootstrap, topic string, partitions int32, total int64) report {
	offsets := map[int32]kgo.Offset{}
	for partition := range partitions {
		offsets[partition] = kgo.NewOffset().At(0)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMinBytes(1),
	)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	result := report{Version: version()}
	var wall time.Time
	var cpu float64
	for result.Records < total {
		fetches := client.PollFetches(context.Background())
		if errs := fetches.Errors(); len(errs) > 0 {
			fail(errs[0].Err)
		}
		before := result.Records
		fetches.EachRecord(func(record *kgo.Record) {
			result.Records++
			result.Bytes += int64(len(record.Value))
		})
		// The clock starts when the first records are there, and those do not count: as for every client.
		if before == 0 && result.Records > 0 {
			result.Counted = -result.Records
			wall, cpu = time.Now(), cpuSeconds()
		}
	}
	result.Counted += result.Records
	result.Seconds = time.Since(wall).Seconds()
	result.CPUSeconds = cpuSeconds() - cpu
	result.PeakRSS = peakRSS()
	return result
}
