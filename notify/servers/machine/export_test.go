package machine

import (
	"os"
	"path/filepath"
)

// Data returns the folder of the disk as Redis sees it.
func (m *Machine) Data() string { return m.data }

// AllSynced reports whether a power cut would lose nothing now.
func (m *Machine) AllSynced() bool {
	synced, err := m.synced()
	if err != nil {
		return false
	}
	files, err := filepath.Glob(filepath.Join(m.Disk(), "appendonlydir", "*"))
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Size() > synced[filepath.Join(m.data, "appendonlydir", filepath.Base(file))] {
			return false
		}
	}
	return err == nil && len(files) > 0
}
