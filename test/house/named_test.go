package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guides are the pages for contributors: what they name has to exist.
var guides = []string{"docs/ARCHITECTURE.md", "CONTRIBUTING.md", "test/README.md"}

var (
	fenced    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	quoted    = regexp.MustCompile("`[^`\n]+`")
	path      = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*/?$`)
	symbol    = regexp.MustCompile(`^([a-z]\w*)\.([A-Z]\w*)(\.[A-Z]\w*)?(\(.*\))?$`)
	testNamed = regexp.MustCompile(`\bTest[A-Z]\w+`)
	camelCase = regexp.MustCompile(`^[A-Za-z]+[a-z0-9][A-Z]\w*$`)
	roomsOf   = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|")
)

// TestGuidesNameWhatExists looks for every file, every package.Name, every other Go name
// and every test that the guides name.
func TestGuidesNameWhatExists(t *testing.T) {
	t.Chdir("../..")
	checked := 0
	known := map[string]map[string]bool{"t": {"Parallel": true}} // testing.T's
	var source strings.Builder
	for _, pattern := range []string{"*/*.go", "*/*/*.go", "*/*/*/*.go", "*/*/*/*/*.go", "*/*/*/*/*/*.go"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, _ := os.ReadFile(file)
			source.Write(text)
		}
	}
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range testNamed.FindAllString(string(text), -1) {
			checked++
			if !strings.Contains(source.String(), "\nfunc "+name+"(") {
				t.Errorf("%s names %s: there is no such test", guide, name)
			}
		}
		for _, span := range quoted.FindAllString(fenced.ReplaceAllString(string(text), ""), -1) {
			span = strings.Trim(span, "`")
			first, _, isPath := strings.Cut(span, "/")
			if _, err := os.Stat(first); isPath && err == nil && path.MatchString(span) && !strings.Contains(span, "NAME") {
				checked++
				if _, err := os.Stat(span); err != nil {
					t.Errorf("%s names %s, which does not exist", guide, span)
				}
			}
			if camelCase.MatchString(span) {
				checked++
				if !strings.Contains(source.String(), span) {
					t.Errorf("%s names %s: no Go file has that name", guide, span)
				}
			}
			if m := symbol.FindStringSubmatch(span); m != nil {
				checked++
				if !declared(t, known, m[1])[m[2]+m[3]] {
					t.Errorf("%s names %s: no package %s declares it", guide, span, m[1])
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("found %d names in %v: the expressions of this test do not match them any more", checked, guides)
	}
}

// declared returns the exported names, "Name" and "Type.Method", of the packages whose
// folder has a name.
func declared(t *testing.T, known map[string]map[string]bool, pkg string) map[string]bool {
	t.Helper()
	if names := known[pkg]; names != nil {
		return names
	}
	names := map[string]bool{}
	known[pkg] = names
	for _, pattern := range []string{"internal/", "internal/*/", "internal/*/*/", "internal/*/*/*/", "kube/", "kube/*/", "test/"} {
		files, err := filepath.Glob(pattern + pkg + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				declares(names, d)
			}
		}
	}
	return names
}

func declares(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok {
			names[id.Name+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names[s.Name.Name] = true
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			}
		}
	}
}

// TestDistrictsNameTheirRooms: a district with several packages says what each does, and
// names no others.
func TestDistrictsNameTheirRooms(t *testing.T) {
	pages := map[string]string{"internal/product": "doc.go", "internal/daemon": "control.go", "internal/cliutil": "command.go"}
	seen := map[string]bool{}
	for _, s := range sources(t) {
		i := find(s.pkg)
		if i < 0 || seen[s.pkg] || districts[i].budget.packages == 1 || districts[i].layer >= 5 {
			continue
		}
		seen[s.pkg] = true
		d := districts[i].path
		page := pages[d]
		if page == "" {
			page = "README.md"
		}
		text, err := os.ReadFile(filepath.Join("../..", d, page))
		if err != nil {
			t.Error(err)
			continue
		}
		room, _ := strings.CutPrefix(s.pkg, d+"/")
		if room != d && !regexp.MustCompile(`[\s`+"`"+`]`+regexp.QuoteMeta(room)+`[\s,`+"`"+`]`).Match(text) {
			t.Errorf("%s/%s does not name the room %s", d, page, room)
		}
	}
	for _, d := range districts {
		if d.layer >= 5 {
			continue
		}
		text, _ := os.ReadFile(filepath.Join("../..", d.path, "README.md"))
		for _, row := range roomsOf.FindAllStringSubmatch(string(text), -1) {
			for _, room := range quoted.FindAllString(row[1], -1) {
				room = filepath.Join(d.path, strings.Trim(room, "`"))
				if _, err := os.Stat(filepath.Join("../..", room)); err != nil {
					t.Errorf("%s/README.md names the room %s, which does not exist", d.path, room)
				}
			}
		}
	}
}
