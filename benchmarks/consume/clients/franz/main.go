// franz-go: franz BOOTSTRAP TOPIC PARTITIONS RECORDS PASSES
//
// Each pass is a client of its own in the same process, so that the last one runs on a warm runtime and heap.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
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

func main() {
	if len(os.Args) != 6 {
		fail(fmt.Errorf("usage: franz BOOTSTRAP TOPIC PARTITIONS RECORDS PASSES"))
	}
	partitions, total, passes := number(os.Args[3]), number(os.Args[4]), number(os.Args[5])
	for pass := int64(1); pass <= passes; pass++ {
		result := consume(os.Args[1], os.Args[2], int32(partitions), total)
		result.Pass = fmt.Sprintf("pass %d", pass)
		if pass == passes {
			result.Pass = "last"
		}
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

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// VmHWM rather than ru_maxrss: the latter keeps the parent's figure across exec.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fail(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			return 1024 * number(strings.Fields(rest)[0])
		}
	}
	return 0
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return "franz-go " + strings.TrimPrefix(module.Version, "v") + ", " + info.GoVersion
		}
	}
	return "franz-go"
}

func number(word string) int64 {
	found, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		fail(err)
	}
	return found
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
