package console_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// crowded is a site with 10,000 topics, a few of which have something ready or dead.
func crowded(b *testing.B) *site {
	b.Helper()
	s := serve(b, storetest.At(b, storetest.Server(b).URL(), ""), httpapi.Options{})
	carry(b, s.store)
	crowd(b, s.store)
	return s
}

// crowd publishes to 10,000 topics.
func crowd(b *testing.B, db *notify.Store) {
	b.Helper()
	const topics = 10_000
	storetest.Fill(b, db, 2*topics, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprint("order.", i%topics), Delay: time.Duration(i) * time.Second, Body: storetest.Payload}
	})
	storetest.Fill(b, db, 100, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprint("order.", i%10), Body: storetest.Payload}
	})
	buryAll(b, db, "order.3", "timeout")
}

// BenchmarkFirstPaint measures, of each kind of page of a store with 10,000 topics, how long after the navigation its HTML is there, and a browser
// first paints it. The first time is by itself: nothing was asked of the store before.
func BenchmarkFirstPaint(b *testing.B) {
	s := populated(b)
	crowd(b, s.store)
	for _, path := range addresses(b) {
		b.Run("page="+path, func(b *testing.B) {
			page := s.browse("/ui/login", consoletest.Look{})
			var answered, painted []float64
			for b.Loop() {
				page.Go(s.url + path)
				page.Until("it is painted", "performance.getEntriesByName('first-contentful-paint').length")
				var took struct{ Answered, Painted float64 }
				page.Eval("({ answered: performance.getEntriesByType('navigation')[0].responseEnd, painted: performance.getEntriesByName('first-contentful-paint')[0].startTime })", &took)
				answered, painted = append(answered, took.Answered), append(painted, took.Painted)
			}
			b.ReportMetric(painted[0], "first-ms")
			b.ReportMetric(median(answered), "answered-ms-p50")
			b.ReportMetric(median(painted), "painted-ms-p50")
		})
	}
}

// median returns the half of some times that is larger at the least. It sorts them.
func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkViewers measures what open overviews of a store with 10,000 topics cost: calls of Redis, and processor time of the
// daemon, which is this process. The viewers are in one of their own.
func BenchmarkViewers(b *testing.B) {
	const seconds = 60 // a forecast of so many topics is kept for as long
	s := crowded(b)
	for _, viewers := range []int{0, 1, 50} {
		b.Run(fmt.Sprint("viewers=", viewers), func(b *testing.B) {
			s.watched(b, viewers)
			for b.Loop() {
				calls, used := callsOf(b, s.store), processorTime(b)
				time.Sleep(seconds * time.Second)
				b.ReportMetric((callsOf(b, s.store)-calls)/seconds, "calls/s")
				b.ReportMetric(100*(processorTime(b)-used).Seconds()/seconds, "%-of-a-core")
			}
		})
	}
}

// Variables of the environment that make this program a process of viewers.
const (
	watchedURL = "BELLHOP_TEST_WATCHED"
	watchers   = "BELLHOP_TEST_WATCHERS"
)

// watched has viewers watch the overview in a process of their own until the benchmark ends. It returns when they
// have all been sent something.
func (s *site) watched(b *testing.B, viewers int) {
	b.Helper()
	if viewers == 0 {
		return
	}
	url := s.url + "/ui/?edition=" + s.visitor().get("/ui/").field(assetEdition)
	others := exec.Command(os.Args[0])
	others.Env = append(os.Environ(), watchedURL+"="+url, watchers+"="+strconv.Itoa(viewers))
	others.Stderr = os.Stderr
	out, err := others.StdoutPipe()
	if err == nil {
		err = others.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = others.Process.Kill()
		_ = others.Wait() // it was killed
	})
	lines := bufio.NewScanner(out)
	for range viewers {
		if !lines.Scan() {
			b.Fatal("the viewers ended")
		}
	}
	storetest.Eventually(b, "all watch", func() bool { return s.gate.Stats().Viewers == int64(viewers) })
}

// watch is the process of viewers. It writes a line for each that was sent something, and ends with the streams.
func watch(url string) int {
	n, _ := strconv.Atoi(os.Getenv(watchers))
	ended := make(chan error, n)
	for range n {
		go func() {
			r, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				ended <- err
				return
			}
			r.Header.Set("Accept", "text/event-stream")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				ended <- err
				return
			}
			defer resp.Body.Close()
			first := make([]byte, 1)
			if _, err = io.ReadFull(resp.Body, first); err == nil {
				fmt.Println(resp.Status)
				_, err = io.Copy(io.Discard, resp.Body)
			}
			ended <- err
		}()
	}
	fmt.Fprintln(os.Stderr, "a stream ended:", <-ended)
	return 1
}

var sent = regexp.MustCompile(`cmdstat_(?:fcall|info):calls=(\d+)`)

// callsOf returns how many calls Redis got.
func callsOf(b *testing.B, db *notify.Store) (n float64) {
	b.Helper()
	text, err := db.Client().Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, found := range sent.FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.ParseFloat(found[1], 64)
		n += calls
	}
	return n
}

// processorTime returns what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
