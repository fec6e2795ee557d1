package metrics_test

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var (
	//go:embed alerts.yml
	alerts string

	//go:embed grafana.json
	grafana []byte
)

// families returns the names of all metrics of a full scrape, and of the series of
// histograms.
func families(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{"up": true} // Prometheus itself makes it
	for line := range strings.Lines(get(t, full(t, storetest.Open(t)).Handler()) + get(t, full(t, storetest.Sharded(t, 8)).Handler())) {
		var name, kind string
		if fields := strings.Fields(line); len(fields) == 4 && fields[1] == "TYPE" {
			name, kind = fields[2], fields[3]
		}
		switch kind {
		case "":
		case "histogram":
			names[name+"_bucket"], names[name+"_sum"], names[name+"_count"] = true, true, true
		default:
			names[name] = true
		}
	}
	return names
}

var (
	metricName = regexp.MustCompile(`\b(?:bellhop|go|process|promhttp)_[a-z0-9_]+|\bup\b`)
	quoted     = regexp.MustCompile(`"[^"]*"`)
)

// wantKnown checks that an expression names metrics, and only existing ones.
func wantKnown(t *testing.T, known map[string]bool, where, expression string) {
	t.Helper()
	names := metricName.FindAllString(quoted.ReplaceAllString(expression, `""`), -1)
	if len(names) == 0 {
		t.Errorf("%s names no metric: %s", where, expression)
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("%s names %s, which is no metric: %s", where, name, expression)
		}
	}
}

func TestAlerts(t *testing.T) {
	known := families(t)
	rules := strings.Split(alerts, "- alert: ")[1:]
	for _, rule := range rules {
		name, rest, _ := strings.Cut(rule, "\n")
		_, expression, found := strings.Cut(rest, " expr: ")
		expression, _, _ = strings.Cut(expression, "\n")
		if !found {
			t.Errorf("%s has no expression", name)
		}
		wantKnown(t, known, name, expression)
		for _, part := range []string{"severity:", "summary:", "description:"} {
			if !strings.Contains(rest, part) {
				t.Errorf("%s has no %s", name, part)
			}
		}
	}
	if len(rules) < 9 {
		t.Errorf("there are %d rules", len(rules))
	}
}

// growth finds functions that compare a series with its own past.
var growth = regexp.MustCompile(`\b(?:rate|irate|increase|delta|changes|resets)\(`)

// The series of a topic appear when it is in trouble, so no rule may wait for them to
// grow; and a paused topic is overdue on purpose.
func TestAlertsByTopic(t *testing.T) {
	rules := make(map[string]string)
	for _, rule := range strings.Split(alerts, "- alert: ")[1:] {
		name, rest, _ := strings.Cut(rule, "\n")
		_, expression, _ := strings.Cut(rest, " expr: ")
		expression, _, _ = strings.Cut(expression, "\n")
		if strings.Contains(expression, "topic") && growth.MatchString(expression) {
			t.Errorf("%s waits for the series of a topic to grow: %s", name, expression)
		}
		rules[name] = expression
	}
	storetest.Same(t, "BellhopOverdue", "max by (job, topic) (bellhop_oldest_overdue_seconds) > 60 unless max by (job, topic) (bellhop_paused) == 1", rules["BellhopOverdue"])
	storetest.Same(t, "BellhopDeadGrowing", "time() - max by (job, topic) (bellhop_newest_death_timestamp_seconds) < 900", rules["BellhopDeadGrowing"])
	storetest.Same(t, "BellhopGroupHeld", `max by (job) (bellhop_groups{state="held"}) > 0`, rules["BellhopGroupHeld"])
	store := storetest.Open(t)
	storetest.Publish(t, store, notify.Message{Topic: "held", ID: "x", Body: []byte("x")}, notify.Message{Topic: "late", ID: "x", Body: []byte("x")})
	overdue(t, store, "held", "x", time.Hour)
	overdue(t, store, "late", "x", time.Hour)
	storetest.Must(t, storetest.Inspector(t, store).Pause(t.Context(), "held"))
	want(t, scrape(t, newMetrics(t, store, metrics.Options{TopicLimit: 2})), map[string]float64{
		series("bellhop_paused", "held"): 1, series("bellhop_paused", "late"): 0, series("bellhop_oldest_overdue_seconds", "other"): 0,
	})
}

type gridPos struct{ X, Y, W, H int }

func (a gridPos) overlaps(b gridPos) bool {
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

type dashboard struct {
	SchemaVersion int
	Panels        []struct {
		ID          int
		Type, Title string
		GridPos     gridPos
		Targets     []struct{ RefID, Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Annotations struct{ List []struct{ Name, Expr string } }
}

func TestDashboard(t *testing.T) {
	var d dashboard
	storetest.Must(t, json.Unmarshal(grafana, &d))
	known, shown := families(t), make(map[string]bool)
	ids := make(map[int]bool)
	for i, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H < 1 {
			t.Errorf("panel %d, %q: its id, title or place is wrong", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range d.Panels[:i] {
			if p.GridPos.overlaps(q.GridPos) {
				t.Errorf("panel %q lies on %q", p.Title, q.Title)
			}
		}
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			wantKnown(t, known, p.Title, target.Expr)
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				shown[name] = true
			}
		}
	}
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			wantKnown(t, known, v.Name, v.Definition)
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			wantKnown(t, known, a.Name, a.Expr)
		}
	}
	wantAllShown(t, known, shown)
}

// wantAllShown checks that every metric of Bellhop is on the dashboard.
func wantAllShown(t *testing.T, known, shown map[string]bool) {
	t.Helper()
	for name := range known {
		seldom := strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")
		if strings.HasPrefix(name, "bellhop_") && !seldom && !shown[name] {
			t.Errorf("%s is missing on the dashboard", name)
		}
	}
}
