package console

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/daemon/console/stream"
	"github.com/bellhopd/bellhop/notify/store"
)

const quiet = 15 * time.Second // after which a stream says that it is alive, so that no proxy closes it

// stream sends the live part of a page each time that it changed, until the client goes
// away, the token is taken away, or the daemon stops.
func (c *Console) stream(w http.ResponseWriter, v *visit, p page) {
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	defer context.AfterFunc(c.o.Closing, cancel)()
	defer v.Pages.Add(-1)
	if v.Pages.Add(1) > int64(c.o.MaxPages) {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "your token has too many pages open", http.StatusTooManyRequests)
		return
	}
	c.viewers.Add(1)
	defer c.viewers.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	s := stream.To(w, c.o.Patience, c.quiet)
	ticker := time.NewTicker(snapshots.Rhythm)
	defer ticker.Stop()
	for {
		event, last := c.piece(ctx, v, p)
		if ctx.Err() != nil || s.Send(event) != nil {
			return
		}
		if last {
			s.End()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-v.Valid.Done():
		case <-ticker.C:
		}
	}
}

// piece returns the live part of a page as an event of a stream, and whether it is the last one. It is made once a
// second for all who may see the same and look at the same.
func (c *Console) piece(ctx context.Context, v *visit, p page) (event []byte, last bool) {
	if end := c.endOf(v); end != nil {
		f := c.frame(v, p)
		f.Fault = end
		return stream.Event("", c.livePart(p, f)), true
	}
	whose := fmt.Sprint(v.Name, v.Fingerprint, v.Rights, v.Patterns, v.Everything, v.r.URL.RequestURI())
	made, _ := c.caches.pieces.Get(ctx, whose, cache.Keep{Age: snapshots.Rhythm, Within: 2 * cache.ReadWithin}, func(ctx context.Context) ([]byte, error) {
		return c.makePiece(ctx, v, p), nil
	})
	return made, false
}

// endOf returns why a stream ends: its viewer is logged out, or the program is another one;
// nil: it goes on.
func (c *Console) endOf(v *visit) *pageFault {
	if now, err := c.viewer(v.r); v.Valid.Err() != nil || err == nil && now == nil {
		return &pageFault{Title: "You are logged out", Detail: "You logged out in another window, your token was taken away or changed, the secret was rotated, or you logged in 12 hours ago. Log in again."}
	}
	if v.query("edition") != c.edition {
		return &pageFault{Title: "The daemon was updated", Detail: "This page is of the version before. Load it again."}
	}
	return nil
}

// makePiece makes the live part of a page as an event. Where nothing could be read the event has a name: the page then
// keeps what it shows, and says why beside that.
func (c *Console) makePiece(ctx context.Context, v *visit, p page) []byte {
	f := c.frame(v, p)
	ctx, cancel := context.WithTimeout(ctx, cache.ReadWithin)
	defer cancel()
	var err error
	name := ""
	if f.Data, err = p.read(ctx, c, v); err != nil {
		f.Fault = c.faultFor(v.Viewer, err)
		if f.Fault.Again && !store.IsPartial(err) {
			name, f.Data = "fault", nil
		}
	}
	return stream.Event(name, c.livePart(p, f))
}

// livePart returns the live part of a page as it is sent.
func (c *Console) livePart(p page, f *frame) []byte {
	f.Edition, f.Version = c.edition, c.o.Version
	text, err := execute(p.name, "piece", f)
	if err != nil {
		if c.withheld.isNew(p.title+": "+err.Error(), time.Now()) {
			c.o.Logger.Error("cannot show a part of the console", "page", p.title, "error", err)
		}
		return []byte("this part could not be made; the daemon's log says why")
	}
	return text
}
