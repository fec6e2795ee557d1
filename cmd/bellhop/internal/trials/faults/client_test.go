package faults_test

import (
	"path/filepath"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify/servers/child"
)

// packagedTopic is the topic that workers with the packages for Node and for Python handle.
const packagedTopic = "packaged"

// packaged are these workers, each in another language.
var packaged = []string{"client-1", "client-2"}

// packageProgram returns a worker with the package of its language. Its history is that of its process.
func packageProgram(m *member) child.Program {
	p := actorProgram(m)
	command := []string{"node", "testdata/client.mjs"}
	if m.name == packaged[1] {
		command = []string{"python3", "testdata/client.py"}
		p.Env = append(p.Env, "PYTHONPATH=../../../../../daemon/httpapi/clients/python")
	}
	p.Path, p.Args = command[0], append(command[1:], packagedTopic, lease.String(), filepath.Join(m.w.dir, m.id()+history.Suffix))
	return p
}
