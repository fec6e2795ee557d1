package calendar

import (
	"archive/zip"
	_ "embed"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

//go:embed zoneinfo.zip
var zoneinfo string

//go:embed version
var version string

// nearZones is how many zones the error of an unknown one names.
const nearZones = 3

// Version returns the version of the rules of zones, such as 2025c. Newer ones sort behind older ones.
func Version() string { return strings.TrimSpace(version) }

// zones are the zones by name, and those that were loaded.
var (
	zones = sync.OnceValue(func() map[string]*zip.File {
		archive, err := zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
		if err != nil {
			panic(err) // it is part of the program
		}
		all := make(map[string]*zip.File, len(archive.File))
		for _, file := range archive.File {
			all[file.Name] = file
		}
		return all
	})
	loaded sync.Map // name to *time.Location
)

// Zones returns the names of all zones, in order.
func Zones() []string {
	all := make([]string, 0, len(zones()))
	for name := range zones() {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Zone returns the zone of a name, such as Europe/Berlin; of an empty one UTC. The error is a Fault that names those most alike.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if zone, known := loaded.Load(name); known {
		return zone.(*time.Location), nil
	}
	file := zones()[name]
	if file == nil {
		return nil, fault.New("zone", "zone %.64q: there is none of this name in the IANA's data %s; do you mean %s?", name, Version(), strings.Join(nearest(name), ", "))
	}
	zone, err := load(file)
	if err != nil {
		return nil, fault.New("zone", "zone %s: %w; name another one", name, err)
	}
	loaded.Store(name, zone)
	return zone, nil
}

func load(file *zip.File) (*time.Location, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(file.Name, data)
}

// nearest returns the zones whose name, or the last part of it, is most like a name, whatever its case.
func nearest(name string) []string {
	name = strings.ReplaceAll(strings.ToLower(name[:min(len(name), 64)]), " ", "_")
	distance := func(zone string) int {
		zone = strings.ToLower(zone)
		return min(levenshtein.ComputeDistance(name, zone), levenshtein.ComputeDistance(name, zone[strings.LastIndexByte(zone, '/')+1:]))
	}
	all := Zones()
	far := make(map[string]int, len(all))
	for _, zone := range all {
		far[zone] = distance(zone)
	}
	slices.SortStableFunc(all, func(a, b string) int { return far[a] - far[b] })
	return all[:nearZones]
}
