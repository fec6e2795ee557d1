package api

import (
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// InZone is the form in which a time at which a schedule fires is shown: in its zone, with the offset.
const InZone = "2006-01-02 15:04:05 -0700"

// Fires says when a schedule fires.
func (s *Schedule) Fires() string {
	return Fires(calendar.Spec{Cron: s.Cron, Zone: s.Zone, Every: time.Duration(s.EveryMs) * time.Millisecond, At: s.At}, s.Count)
}

// Fires says when a schedule of a rule and a count fires.
func Fires(of calendar.Spec, count int) string {
	text := "at " + fmt.Sprint(len(of.At)) + " times"
	switch {
	case of.Cron != "" && of.Zone != "":
		text = of.Cron + " in " + of.Zone
	case of.Cron != "":
		text = of.Cron + " in UTC"
	case of.Every > 0:
		text = "every " + fault.Short(of.Every)
	case len(of.At) == 1:
		text = "at " + of.At[0].UTC().Format(time.RFC3339)
	}
	if count > 0 {
		text += fmt.Sprintf(", %d times", count)
	}
	return text
}
