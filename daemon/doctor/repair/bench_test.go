package repair_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const million = 1_000_000

// BenchmarkMillion examines a million messages of a hundred topics, a tenth of them
// due, a tenth with a time to live. It reports how many steps took Redis longer than 2 ms.
func BenchmarkMillion(b *testing.B) {
	store := openAt(b, storetest.Server(b).URL(), "")
	pub := storetest.Publisher(b, store)
	body := []byte(strings.Repeat("x", 100))
	for n := 0; n < million; n += 1000 {
		messages := make([]notify.Message, 1000)
		for i := range messages {
			messages[i] = notify.Message{Topic: fmt.Sprintf("t.%d", n/1000%100), ID: fmt.Sprint(n + i), Body: body}
			if i%10 > 0 {
				messages[i].Delay = time.Hour
			}
			if i%10 == 1 {
				messages[i].TTL = time.Hour
			}
		}
		for _, r := range pub.PublishMany(b.Context(), messages) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	client := store.Client()
	for _, set := range [][]any{{"CONFIG", "SET", "slowlog-log-slower-than", 2000}, {"CONFIG", "SET", "slowlog-max-len", 10000}, {"SLOWLOG", "RESET"}, {"CONFIG", "RESETSTAT"}} {
		storetest.Must(b, client.Do(b.Context(), set...).Err())
	}
	for b.Loop() {
		sum, err := repair.Run(b.Context(), store, repair.Options{}, func(f repair.Finding) { b.Errorf("%+v", f) })
		if err != nil || sum.Messages != million {
			b.Fatalf("%+v, %v", sum, err)
		}
	}
	slow, err := client.SlowLogGet(b.Context(), -1).Result()
	storetest.Must(b, err)
	var longest time.Duration
	for _, entry := range slow {
		longest = max(longest, entry.Duration)
	}
	b.ReportMetric(float64(len(slow))/float64(b.N), "slow-steps/op")
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
	stats, err := store.Home().Info(b.Context(), "commandstats")
	storetest.Must(b, err)
	b.Logf("fcall: %s", stats["cmdstat_fcall"])
}
