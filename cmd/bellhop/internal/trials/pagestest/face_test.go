package pagestest_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostNames is how many exported names a user of the library may have to look through.
const mostNames = 189

// Packages notify and subscribers together export few names, and each has its sentence.
func TestFaceIsSmall(t *testing.T) {
	t.Parallel()
	total := 0
	for _, dir := range []string{"notify", "subscribers"} {
		n := 0
		for name, sentence := range exported(t, dir) {
			if n++; sentence == "" {
				t.Errorf("%s: %s has no doc comment", dir, name)
			}
		}
		t.Logf("%s exports %d names", dir, n)
		total += n
	}
	if total > mostNames {
		t.Errorf("%d names are exported, want at most %d; those that only siblings need belong to store", total, mostNames)
	}
}

// exported returns the exported names of a package with their doc comments.
func exported(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	values := func(groups []*doc.Value) {
		for _, group := range groups {
			for _, name := range group.Names {
				all[name] = group.Doc
			}
		}
	}
	funcs := func(of string, some []*doc.Func) {
		for _, f := range some {
			all[of+f.Name] = f.Doc
		}
	}
	p := parsed(t, dir)
	values(p.Consts)
	values(p.Vars)
	funcs("", p.Funcs)
	for _, typ := range p.Types {
		all[typ.Name] = typ.Doc
		values(typ.Consts)
		values(typ.Vars)
		funcs("", typ.Funcs)
		funcs(typ.Name+".", typ.Methods)
	}
	return all
}

// parsed returns the documentation of a package, without its tests.
func parsed(t *testing.T, dir string) *doc.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, "github.com/bellhopd/bellhop")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
