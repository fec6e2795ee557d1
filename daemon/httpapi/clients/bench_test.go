package clients_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const (
	benchTopic  = "order.timeout"
	benchHands  = 32
	benchIdle   = 200    // messages, one after the other
	benchmarked = 10_000 // messages that are ready
	minute      = time.Minute
)

// byHand is the last commit whose examples have a worker that uses nothing but fetch.
const byHand = "2e6644c541"

// benchWorkers are programs that print a line as they handle a message.
func benchWorkers(b *testing.B) map[string][]string {
	b.Helper()
	node, python := unpacked(b, "node"), unpacked(b, "python")
	worker, err := exec.Command("git", "show", byHand+":daemon/httpapi/examples/worker.mjs").Output()
	if err != nil {
		b.Fatalf("the benchmark compares with a file of commit %s: it needs git, and a clone with its history: %v", byHand, err)
	}
	own := strings.ReplaceAll(string(worker), "max=8&", fmt.Sprintf("max=%d&", benchHands))
	storetest.Must(b, os.WriteFile(filepath.Join(node, "byhand.mjs"), []byte(own), 0o600))
	storetest.Must(b, os.WriteFile(filepath.Join(node, "worker.mjs"), fmt.Appendf(nil, `import { Bellhop } from "./index.mjs";
await new Bellhop().work(%q, (m) => console.log(m.id), { concurrency: %d }).untilSignal();`, benchTopic, benchHands), 0o600))
	storetest.Must(b, os.WriteFile(filepath.Join(python, "worker.py"), fmt.Appendf(nil, `import os
from bellhop_client import Bellhop
Bellhop().work(%q, lambda m: os.write(1, f"{m.id}\n".encode()) and None, concurrency=%d).until_signal()`, benchTopic, benchHands), 0o600))
	return map[string][]string{
		"byhand": {"node", filepath.Join(node, "byhand.mjs")}, "node": {"node", filepath.Join(node, "worker.mjs")}, "python": {"python3", filepath.Join(python, "worker.py")},
	}
}

// begin starts a program at a daemon, and returns when each of its lines came, and what ends it.
func begin(b *testing.B, url string, command ...string) (lines <-chan time.Time, end func()) {
	b.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Env, c.Stderr = append(os.Environ(), "BELLHOP_URL="+url), os.Stderr
	out, err := c.StdoutPipe()
	storetest.Must(b, err)
	storetest.Must(b, c.Start())
	came := make(chan time.Time, benchmarked)
	go func() {
		defer close(came)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			if scanner.Text() != "waiting" { // of the worker by hand
				came <- time.Now()
			}
		}
	}()
	return came, func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		for range came { // until it has ended
		}
		_ = c.Wait()
	}
}

// BenchmarkPackages measures a worker with each package beside one that is written by hand, in turns: the time from a publish until a handler
// has the message where nothing else happens, and how many ready messages are handled a second.
func BenchmarkPackages(b *testing.B) {
	workers, redis := benchWorkers(b), storetest.Server(b).URL()
	store, url := storetest.At(b, redis, "bellhop"), serve(b, nil, redis)
	idle, rate := make(map[string][]float64), make(map[string][]float64)
	for b.Loop() {
		for _, name := range slices.Sorted(maps.Keys(workers)) {
			idle[name] = append(idle[name], idleTime(b, store, url, workers[name]))
			rate[name] = append(rate[name], handledRate(b, store, url, workers[name]))
		}
	}
	for name := range workers {
		b.ReportMetric(median(idle[name]), name+"-ms")
		b.ReportMetric(median(rate[name]), name+"/s")
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// idleTime returns the median of the times from a publish until its handler has printed.
func idleTime(b *testing.B, store *notify.Store, url string, command []string) float64 {
	b.Helper()
	lines, end := begin(b, url, command...)
	defer end()
	var all []float64
	for i := range benchIdle + 10 {
		storetest.Eventually(b, "the worker waits", func() bool {
			n, err := store.Client().ZCard(b.Context(), store.KeysOf(benchTopic).Waiting(benchTopic)).Result()
			c, fault := storetest.Count(store, benchTopic)
			return err == nil && fault == nil && n == 1 && c.Leased == 0
		})
		begun := time.Now()
		response, err := http.Post(url+"/v1/topics/"+benchTopic+"/messages", "", strings.NewReader("x"))
		storetest.Must(b, err)
		response.Body.Close()
		if took := storetest.Receive(b, "the message", lines).Sub(begun); i >= 10 { // the first ones compile
			all = append(all, took.Seconds()*1000)
		}
	}
	return median(all)
}

// handledRate returns how many messages a second are handled of those that are ready when the worker starts.
func handledRate(b *testing.B, store *notify.Store, url string, command []string) float64 {
	b.Helper()
	storetest.Fill(b, store, benchmarked, func(i int) notify.Message {
		return notify.Message{Topic: benchTopic, ID: strconv.Itoa(i), Body: storetest.Payload}
	})
	lines, end := begin(b, url, command...)
	defer end()
	first := storetest.Receive(b, "a message", lines)
	last := first
	for range benchmarked - 1 {
		last = storetest.Receive(b, "a message", lines)
	}
	return (benchmarked - 1) / last.Sub(first).Seconds()
}

// BenchmarkIdlePackages measures a minute of 100 workers that have nothing to do: their calls a second, and how many more a second Redis gets
// than without them.
func BenchmarkIdlePackages(b *testing.B) {
	node := unpacked(b, "node")
	storetest.Must(b, os.WriteFile(filepath.Join(node, "idle.mjs"), fmt.Appendf(nil, `import { Bellhop } from "./index.mjs";
for (let n = 0; n < 100; n++) new Bellhop({ name: "idle-" + n }).work(%q, () => {});`, benchTopic), 0o600))
	redis := storetest.Server(b)
	store, url := storetest.At(b, redis.URL(), "bellhop"), serve(b, nil, redis.URL())
	asked := func() float64 {
		return number(b, store.Client().Info(b.Context(), "commandstats").Val(), `cmdstat_fcall:calls=(\d+)`)
	}
	metrics := func() string {
		response, err := http.Get(url + "/metrics")
		storetest.Must(b, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		storetest.Must(b, err)
		return string(text)
	}
	claims := func() float64 {
		return number(b, metrics(), `(?m)^bellhop_http_requests_total\{[^}]*operation="claim"[^}]*\} (\d+)`)
	}
	for b.Loop() {
		storetest.Eventually(b, "a carrier beats", func() bool {
			return strings.Contains(store.Client().Info(b.Context(), "commandstats").Val(), "cmdstat_fcall:")
		})
		before := asked()
		time.Sleep(minute)
		alone := asked() - before
		_, end := begin(b, url, "node", filepath.Join(node, "idle.mjs"))
		storetest.Eventually(b, "all wait", func() bool { return strings.Contains(metrics(), "\nbellhop_http_polls 100\n") })
		storetest.Eventually(b, "a claim has ended without a message", func() bool { return strings.Contains(metrics(), `operation="claim"`) })
		before, claimed := asked(), claims()
		time.Sleep(minute)
		b.ReportMetric((asked()-before-alone)/minute.Seconds(), "more-calls-of-redis/s")
		b.ReportMetric((claims()-claimed)/minute.Seconds(), "calls/s")
		end()
	}
}

// number returns the number that a pattern finds.
func number(b *testing.B, text, pattern string) float64 {
	b.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		b.Fatalf("there is no %s", pattern)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	storetest.Must(b, err)
	return n
}

// BenchmarkImport measures how long each package takes to be imported.
func BenchmarkImport(b *testing.B) {
	for name, program := range map[string][]string{
		"node":   {"node", "--input-type=module", "-e", `const begun = performance.now(); await import("./index.mjs"); console.log(performance.now() - begun)`},
		"python": {"python3", "-c", `import time; begun = time.perf_counter(); import bellhop_client; print(1000 * (time.perf_counter() - begun))`},
	} {
		b.Run(name, func(b *testing.B) {
			dir := unpacked(b, name)
			var all []float64
			for b.Loop() {
				c := exec.Command(program[0], program[1:]...)
				c.Dir = dir
				out, err := c.Output()
				storetest.Must(b, err)
				all = append(all, number(b, string(out), `([\d.]+)`))
			}
			b.ReportMetric(median(all), "ms")
		})
	}
}
