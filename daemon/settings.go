package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/environ"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Setting is one setting with its value, fit to be shown.
type Setting struct {
	Name    string `json:"name"`    // of the environment variable
	Value   string `json:"value"`   // fit to be shown
	Default string `json:"default"` //
	Source  string `json:"source"`  // "environment", "credential" or "default"
	Doc     string `json:"doc"`     // a sentence or two
}

// Settings returns every setting with its value and where that comes from, in
// the order of Config's fields, for the environment that Load read. No secret is among the values.
func (c Config) Settings(env []string) []Setting {
	v := reflect.ValueOf(c)
	all := make([]Setting, 0, v.NumField())
	for i := range v.NumField() {
		field := v.Type().Field(i)
		s := Setting{
			Name: settingName(field), Value: shown(v.Field(i).Interface()),
			Default: field.Tag.Get("default"), Source: "default", Doc: field.Tag.Get("desc"),
		}
		if s.Default == "" && v.Field(i).IsZero() {
			s.Value = "" // the default is not in the configuration
		}
		if _, set := environ.Lookup(env, s.Name); set {
			s.Source = "environment"
		} else if credential(env, s.Name) != "" {
			s.Source = "credential"
		}
		all = append(all, s)
	}
	return all
}

// credential returns the file that systemd passed on for a setting that names a file,
// if there is one: for BELLHOP_REDIS_PASSWORD_FILE it is called bellhop.redis-password.
func credential(env []string, setting string) string {
	dir := environ.Get(env, "CREDENTIALS_DIRECTORY")
	name, ok := strings.CutSuffix(strings.TrimPrefix(setting, envPrefix+"_"), "_FILE")
	if dir == "" || !ok {
		return ""
	}
	file := filepath.Join(dir, "bellhop."+strings.ReplaceAll(strings.ToLower(name), "_", "-"))
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return file
}

// shown returns a value as it is written in the environment.
func shown(value any) string {
	switch v := value.(type) {
	case time.Duration:
		return fault.Short(v)
	case slog.Level:
		return strings.ToLower(v.String())
	}
	return fmt.Sprint(value)
}

// unknown returns an error for each variable that looks like a setting and is none.
func unknown(env []string) []error {
	var faults []error
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix+"_") || slices.Contains(settingNames(), name) {
			continue
		}
		faults = append(faults, fault.Renamed(name, fmt.Errorf("%s is not a setting; did you mean %s? bellhop config lists all", name, api.Nearest(name, settingNames()))))
	}
	return faults
}
