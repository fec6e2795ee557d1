package forecast_test

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // for machines that have none

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Days begin at the midnights of a zone, and its hours where it is half an hour from UTC, too.
func TestZones(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	var due []time.Time
	midnight := time.Now().UTC().Truncate(forecast.Day)
	for hour := 24; hour < 24*5; hour++ { // of UTC, and half past it
		for _, at := range []time.Time{midnight.Add(time.Duration(hour) * time.Hour), midnight.Add(time.Duration(hour)*time.Hour + 30*time.Minute)} {
			for _, one := range []time.Time{at.Add(-time.Millisecond), at} {
				storetest.Publish(t, s, notify.Message{Topic: "t", Due: one})
				due = append(due, one)
			}
		}
	}
	for _, zone := range []*time.Location{nil, time.UTC, time.FixedZone("", 9*60*60), time.FixedZone("", -(3*60+30)*60), time.FixedZone("", (5*60+30)*60)} {
		for _, bucket := range []time.Duration{time.Minute, time.Hour, forecast.Day} {
			f := of(t, s, forecast.Options{Bucket: bucket, Count: 6, Zone: zone})
			local := f.From
			if zone != nil {
				local = f.From.In(zone)
			}
			if local.Second() != 0 || bucket >= time.Hour && local.Minute() != 0 || bucket == forecast.Day && local.Hour() != 0 {
				t.Errorf("buckets of %v in %v begin at %v", bucket, zone, local)
			}
			want := make([]int64, 6)
			for _, at := range due {
				for i := range want {
					if !at.Before(f.Begin(i)) && at.Before(f.Begin(i+1)) {
						want[i]++
					}
				}
			}
			if diff := cmp.Diff(want[1:], f.Counts[1:]); diff != "" { // of the first, some may be overdue
				t.Errorf("buckets of %v in %v (-want +got):\n%s", bucket, zone, diff)
			}
		}
	}
}

// A day is an hour longer or shorter where clocks are put back or forward.
func TestDaysOfADifferentLength(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	storetest.Must(t, err)
	f := forecast.Forecast{From: time.Date(2026, 10, 24, 0, 0, 0, 0, zone), Bucket: forecast.Day}
	for i, want := range []string{"2026-10-24T00:00:00+02:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"} {
		storetest.Is(t, fmt.Sprintf("day %d begins at", i), f.Begin(i).Format(time.RFC3339), want)
	}
}
