// franz-go:
//
//	franz consume BOOTSTRAP TOPIC PARTITIONS RECORDS PASSES
//	franz produce-sync BOOTSTRAP TOPIC PARTITIONS WARM_UP RECORDS VALUE_BYTES
//	franz produce-many BOOTSTRAP TOPIC PARTITIONS WARM_UP RECORDS VALUE_BYTES PASSES
//	franz rate BOOTSTRAP TOPIC PER_SECOND WARMUP_SECONDS WINDOWS WINDOW_SECONDS
//	franz rate-produce BOOTSTRAP TOPIC PER_SECOND SECONDS
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	commands := map[string]struct {
		run   func(words []string)
		words int
	}{
		"consume":      {consumePasses, 5},
		"produce-sync": {produceSync, 6},
		"produce-many": {produceManyPasses, 7},
		"rate":         {rate, 6},
		"rate-produce": {rateProduce, 4},
	}
	if len(os.Args) > 1 {
		if command, known := commands[os.Args[1]]; known && len(os.Args) == 2+command.words {
			command.run(os.Args[2:])
			return
		}
	}
	fail(fmt.Errorf("usage: franz consume|produce-sync|produce-many|rate|rate-produce with its arguments (see main.go)"))
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

// How often a thread gave up its core by itself.
func switches(task string) int64 {
	status, err := os.ReadFile("/proc/self/task/" + task + "/status")
	if err != nil {
		return 0 // the thread has ended
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "voluntary_ctxt_switches:"); found {
			return number(strings.TrimSpace(rest))
		}
	}
	return 0
}

func allSwitches() int64 {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		fail(err)
	}
	sum := int64(0)
	for _, task := range tasks {
		sum += switches(task.Name())
	}
	return sum
}

func passName(pass, passes int64) string {
	if pass == passes {
		return "last"
	}
	return fmt.Sprintf("pass %d", pass)
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
