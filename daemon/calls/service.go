package calls

import (
	"context"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// A Service makes calls on a store. All gateways of a process share one.
type Service struct {
	Store     *notify.Store
	Publisher *notify.Publisher
	Inspector *notify.Inspector
	Finder    *Finder
	Forecasts *forecast.Cache
	Zone      *time.Location   // in which hours and days of forecasts begin; time.UTC unless it is set
	Archive   *archive.Archive // of what ended; nil: there is none
	Outboxes  []*outbox.Outbox
	Pusher    *push.Pusher  // nil: the daemon pushes nowhere
	Clock     *memory.Clock // of Redis; nil: it goes by itself
	MaxBody   int           // bytes of the largest body of a schedule; zero: notify.DefaultMaxBody
	Logger    *slog.Logger
}

// NewService returns the service of a store. Archive is nil if there is none, and logger
// nil for slog.Default(). The error is a notify.ErrInvalid.
func NewService(store *notify.Store, a *archive.Archive, logger *slog.Logger) (*Service, error) {
	if logger == nil {
		logger = slog.Default()
	}
	pub, err := notify.NewPublisher(store, notify.PublisherOptions{})
	if err != nil {
		return nil, err
	}
	inspector, err := notify.NewInspector(store)
	if err != nil {
		return nil, err
	}
	finder, err := newFinder(store)
	if err != nil {
		return nil, err
	}
	return &Service{
		Store: store, Publisher: pub, Inspector: inspector, Finder: finder, Forecasts: forecast.NewCache(store), Zone: time.UTC, Archive: a, Logger: logger,
	}, nil
}

// timeOf returns a time by Redis's clock; zero: there is none. The error is that of the connection.
func (s *Service) timeOf(ctx context.Context, m fields.Moment) (time.Time, error) {
	return m.Time(func() (time.Time, error) { return s.Store.Now(ctx) })
}
