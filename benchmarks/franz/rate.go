package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type rateWindow struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	Records    int     `json:"records"`
	Wrong      int     `json:"wrong"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`
	Max        float64 `json:"max_us"`
}

type rateReport struct {
	Windows []rateWindow `json:"windows"`
	PeakRSS int64        `json:"peak_rss"`
	Version string       `json:"version"`
}

// rate: BOOTSTRAP TOPIC PER_SECOND WARMUP_SECONDS WINDOWS WINDOW_SECONDS
func rate(words []string) {
	warmUp, windows, seconds := decimal(words[3]), number(words[4]), decimal(words[5])
	room := int(decimal(words[2]) * (warmUp + float64(windows)*seconds + 10))
	sequences, latencies := make([]uint64, 0, room), make([]int64, 0, room)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(words[0]),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{words[1]: {0: kgo.NewOffset().At(0)}}),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMinBytes(1),
	)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	result := rateReport{Version: version()}
	for window := int64(0); window <= windows; window++ {
		length := seconds
		if window == 0 {
			length = warmUp
		}
		begin, cpu, first := time.Now(), cpuSeconds(), len(latencies)
		end := begin.Add(time.Duration(length * 1e9))
		for time.Now().Before(end) {
			fetches := client.PollFetches(context.Background())
			if errs := fetches.Errors(); len(errs) > 0 {
				fail(errs[0].Err)
			}
			fetches.EachRecord(func(record *kgo.Record) {
				sequences = append(sequences, binary.LittleEndian.Uint64(record.Value))
				latencies = append(latencies, time.Now().UnixNano()-int64(binary.LittleEndian.Uint64(record.Value[8:])))
			})
		}
		// The warm-up is left out.
		if window > 0 {
			report := windowOf(sequences[first:], latencies[first:])
			report.Seconds, report.CPUSeconds = time.Since(begin).Seconds(), cpuSeconds()-cpu
			result.Windows = append(result.Windows, report)
		}
	}
	result.PeakRSS = peakRSS()
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail(err)
	}
}

func windowOf(sequences []uint64, latencies []int64) rateWindow {
	wrong := 0
	for at := 1; at < len(sequences); at++ {
		if sequences[at] != sequences[at-1]+1 {
			wrong++
		}
	}
	sorted := slices.Sorted(slices.Values(latencies))
	at := func(share float64) float64 {
		if len(sorted) == 0 {
			return 0
		}
		return float64(sorted[int(float64(len(sorted)-1)*share)]) / 1e3
	}
	return rateWindow{Records: len(sorted), Wrong: wrong, P50: at(0.5), P99: at(0.99), P999: at(0.999), Max: at(1)}
}

// rateProduce: BOOTSTRAP TOPIC PER_SECOND SECONDS
//
// Each record is sent before the next is made.
func rateProduce(words []string) {
	perSecond := decimal(words[2])
	client := producer(words[0], 1, kgo.ProducerLinger(0))
	defer client.Close()
	start := time.Now()
	for sequence := range int64(perSecond * decimal(words[3])) {
		time.Sleep(time.Until(start.Add(time.Duration(float64(sequence) * 1e9 / perSecond))))
		value := make([]byte, 23)
		binary.LittleEndian.PutUint64(value, uint64(sequence))
		binary.LittleEndian.PutUint64(value[8:], uint64(time.Now().UnixNano()))
		binary.LittleEndian.PutUint32(value[16:], uint32(sequence))
		if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: words[1], Value: value}).FirstErr(); err != nil {
			fail(err)
		}
	}
}

func decimal(word string) float64 {
	found, err := strconv.ParseFloat(word, 64)
	if err != nil {
		fail(err)
	}
	return found
}
