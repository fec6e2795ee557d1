package console_test

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var pictures = flag.String("console.pictures", "", "folder for the pictures of README.md")

// size returns how many of something a shop has: all of them only if pictures are renewed.
func size(all int) int {
	if *pictures == "" {
		return all / 20
	}
	return all
}

// mostPicture is the most bytes of a picture of README.md.
const mostPicture = 150 << 10

//go:embed pictures/*.png
var inReadme embed.FS

// The pictures of README.md show pages of a shop that sells much. With -console.pictures they are renewed.
func TestPictures(t *testing.T) {
	s := shop(t)
	dir := cmp.Or(*pictures, t.TempDir())
	for _, picture := range []struct{ name, path, shows string }{
		{"overview", "/ui/", "document.querySelector('#river canvas') && /Acknowledged, a second\\s+[1-9]/.test(document.body.innerText)"},
		{"find", "/ui/find?q=topic:webhook.*+state:dead+reason~503", "[...document.querySelectorAll('input[name=m]')].slice(0, 3).map((box) => (box.checked = true)).length"},
	} {
		p := s.browse(picture.path, consoletest.Look{Width: 1360, Height: 100, Scale: 1.5})
		p.Until("it shows something", picture.shows)
		file := filepath.Join(dir, picture.name+".png")
		p.Screenshot(file)
		if *pictures != "" { // of nobody else it matters how large they are, and with the race detector it takes some ten seconds
			fewColours(t, file)
		}
	}
	for _, name := range []string{"overview", "find"} { // those that README.md shows have the same names
		picture, err := inReadme.ReadFile("pictures/" + name + ".png")
		if *pictures != "" {
			picture, err = os.ReadFile(filepath.Join(dir, name+".png"))
		}
		if err != nil || len(picture) > mostPicture {
			t.Errorf("%s has %d bytes, and may have %d: %v", name, len(picture), mostPicture, err)
		}
	}
}

// fewColours writes a picture again with its most frequent colours alone, which makes it smaller.
func fewColours(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	bounds := whole.Bounds()
	number := make(map[color.RGBA]int)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA) }
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			number[at(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(number), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(number[b], number[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range frequent[:min(len(frequent), 128)] {
		palette = append(palette, c)
	}
	nearest := make(map[color.RGBA]uint8, len(number))
	for c := range number {
		nearest[c] = uint8(palette.Index(c))
	}
	few := image.NewPaletted(bounds, palette)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			few.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, few); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shop serves the store of a shop that has been open for an hour, and sells on.
func shop(t *testing.T) *site {
	t.Helper()
	store := storetest.With(t, notify.Config{URL: storetest.Server(t, "--appendonly", "yes").URL(), Prefix: "shop", Shards: 1}) // which loses nothing
	s := serve(t, store, httpapi.Options{})
	random := rand.New(rand.NewPCG(4, 7))
	topics := []string{"cart.abandoned", "invoice.due", "mail.welcome", "order.shipped", "order.timeout", "payment.reminder", "trial.ending"}
	work(t, store, "mailer-1", append(topics, "webhook.retry", "webhook.invoices")...)
	c, err := carrier.New(store, carrier.Options{Name: "bellhop-2", Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	sold := 32_000
	next := func(delay time.Duration) notify.Message {
		sold++
		return notify.Message{Topic: topics[random.IntN(len(topics))], ID: fmt.Sprint("order-", sold), Delay: delay, Body: fmt.Appendf(nil, `{"order":%d}`, sold)}
	}
	already := size(9_000)
	storetest.Fill(t, store, already, func(int) notify.Message { return next(0) })
	inspector := storetest.Inspector(t, store)
	storetest.Eventually(t, "it has sold something", func() bool {
		survey, err := inspector.Survey(t.Context(), 1)
		return err == nil && survey.Acked == int64(already)
	})
	note(t, store.Home(), random)
	storetest.Run(t, c.Run)
	storetest.Fill(t, store, size(14_000), func(int) notify.Message { // more in some minutes than in others
		at := random.Float64() * 75
		for random.Float64() > tide(at) {
			at = random.Float64() * 75
		}
		return next(time.Duration((at + 0.5) * float64(time.Minute)))
	})
	reasons := []string{
		"hooks.acme.example: 503 Service Unavailable", "hooks.acme.example: 503 Service Unavailable, retry after 30s",
		"erp.globex.example: 503 Service Unavailable", "hooks.initech.example: no such host",
	}
	storetest.Fill(t, store, 12, func(i int) notify.Message {
		m := next(0)
		m.Topic = []string{"webhook.retry", "webhook.retry", "webhook.invoices"}[i%3]
		m.Restore = &notify.Restore{Died: time.Now().Add(-time.Duration(4*60+i*i*97) * time.Second), Reason: reasons[i%len(reasons)], AttemptsUsed: 10}
		return m
	})
	if err := inspector.Pause(t.Context(), "report.nightly"); err != nil {
		t.Fatal(err)
	}
	storetest.Publish(t, store, notify.Message{Topic: "report.nightly"}, notify.Message{Topic: "report.nightly"})
	pub := storetest.Publisher(t, store)
	storetest.Run(t, func(ctx context.Context) error { // somebody buys on
		for tick := time.Tick(250 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick:
			}
			if _, err := pub.Publish(ctx, next(0)); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
	return s
}

// tide returns how much a shop sells in a minute, from 0 to 1.
func tide(minute float64) float64 {
	return 0.55 + 0.25*math.Sin(minute/9) + 0.2*math.Sin(minute/2.3+1)
}

// note notes an hour of the past as a carrier does, and gives up the lease.
func note(t *testing.T, shard store.Shard, random *rand.Rand) {
	t.Helper()
	const lease = time.Minute
	e, err := shard.Elect(t.Context(), "bellhop-1", lease, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	var minute store.Sample
	for at := now - int64(size(3700)); at < now-2; at++ {
		second := store.Sample{At: at, Seconds: 1}
		slow := 1.0
		if age := (now - at) / 60; age >= 24 && age <= 27 { // a batch came in
			slow = 6
		}
		for range int(slow * (1 + 5*tide(float64(at-now)/60)*random.Float64())) {
			late := time.Duration(slow * slow * 400 * float64(time.Microsecond) * math.Exp(random.NormFloat64()*0.7))
			bucket := 0
			for bucket < store.LateBuckets-1 && late >= store.LateBound(bucket) {
				bucket++
			}
			second.Late[bucket]++
			second.Published++
			second.Claimed++
			second.Acked++
		}
		if at%60 == 0 || minute.At == 0 {
			minute = store.Sample{At: at - at%60}
		}
		minute.Seconds++
		minute.Add(&second.Totals)
		if _, err := shard.Carry(t.Context(), store.Carry{
			Token: e.Token, Epoch: e.Epoch, Lease: lease, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Beat: true, Look: true, Ready: "0",
			History: true, Samples: &[store.Rings]store.Sample{second, minute},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := shard.Resign(t.Context(), e.Token, "", 0); err != nil {
		t.Fatal(err)
	}
}
