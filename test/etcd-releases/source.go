package main

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// source is the source of a release that was read: packages by directory below the module.
type source struct {
	release
	dir      string
	packages map[string]*pkg
}

// pkg is a package: its files, and the constants and variables that they declare.
type pkg struct {
	files  []*ast.File
	values map[string]ast.Expr
}

func (s *source) load(below string) (*pkg, error) {
	if p, ok := s.packages[below]; ok {
		return p, nil
	}
	all, err := parser.ParseDir(token.NewFileSet(), path.Join(s.dir, below), func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go") && !strings.Contains(f.Name(), "windows")
	}, parser.SkipObjectResolution)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p := &pkg{values: map[string]ast.Expr{}}
	for _, one := range all {
		for _, f := range one.Files {
			p.files = append(p.files, f)
			ast.Inspect(f, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok {
					for i := range v.Values {
						p.values[v.Names[i].Name] = v.Values[i]
					}
				}
				_, body := n.(*ast.BlockStmt)
				return !body
			})
		}
	}
	s.packages[below] = p
	return p, nil
}

// imported returns the directory of a package that a file imports under a name, or "" for a package
// of another module.
func (s *source) imported(f *ast.File, name string) string {
	for _, i := range f.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		if i.Name != nil && i.Name.Name == name || i.Name == nil && path.Base(p) == name {
			if below, ok := strings.CutPrefix(p, s.module+"/"); ok {
				return below
			}
		}
	}
	return ""
}

// units are those of package time.
var units = map[string]time.Duration{
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// scope is the place of an expression: its file and package, and the fields of NewConfig.
type scope struct {
	source *source
	file   *ast.File
	pkg    *pkg
	config map[string]value
}

// value is an expression and its scope.
type value struct {
	expr ast.Expr
	in   scope
}

// eval returns the constant value of an expression, or nil if eval cannot determine it.
func (s scope) eval(e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return s.eval(e.X)
	case *ast.Ident:
		switch e.Name {
		case "true", "false":
			return constant.MakeBool(e.Name == "true")
		}
		if v, ok := s.pkg.values[e.Name]; ok {
			return s.eval(v)
		}
	case *ast.CallExpr:
		if len(e.Args) > 0 { // a conversion, or flags.NewUint32Value
			return s.eval(e.Args[0])
		}
	case *ast.BinaryExpr:
		if x, y := s.eval(e.X), s.eval(e.Y); x != nil && y != nil {
			return constant.BinaryOp(x, e.Op, y)
		}
	case *ast.SelectorExpr:
		return s.selected(e)
	}
	return nil
}

// selected returns the value of a constant of another package, or of a field of the configuration.
func (s scope) selected(e *ast.SelectorExpr) constant.Value {
	name := fieldPath(e)
	if name == "" {
		return nil
	}
	if field, ok := strings.CutPrefix(strings.TrimPrefix(name, "cfg.ec."), "cfg."); ok || strings.HasPrefix(name, "cfg.ec.") {
		if v, ok := s.config[field]; ok {
			return v.in.eval(v.expr)
		}
		return nil
	}
	of, constName, _ := strings.Cut(name, ".")
	if unit, ok := units[constName]; ok && of == "time" {
		return constant.MakeInt64(int64(unit))
	}
	below := s.source.imported(s.file, of)
	if below == "" {
		return nil
	}
	p, err := s.source.load(below)
	if err != nil {
		return nil
	}
	if v, ok := p.values[constName]; ok {
		return scope{source: s.source, file: s.file, pkg: p}.eval(v)
	}
	return nil
}

// fieldPath returns cfg.SocketOpts.ReusePort as text, or "" for other expressions.
func fieldPath(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x := fieldPath(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	}
	return ""
}

// newConfig returns the fields that embed.NewConfig sets, by fieldPath.
func (s *source) newConfig() (map[string]value, error) {
	p, err := s.load("embed")
	if err != nil {
		return nil, err
	}
	out := map[string]value{}
	for _, f := range p.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "NewConfig" {
				continue
			}
			in := scope{source: s, file: f, pkg: p}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if ok {
					addFields(out, in, "", lit)
				}
				return !ok
			})
		}
	}
	return out, nil
}

func addFields(out map[string]value, in scope, prefix string, lit *ast.CompositeLit) {
	for _, e := range lit.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, ok := pair.Key.(*ast.Ident)
		if !ok {
			continue
		}
		expr := pair.Value
		if u, ok := expr.(*ast.UnaryExpr); ok {
			expr = u.X
		}
		if inner, ok := expr.(*ast.CompositeLit); ok {
			addFields(out, in, prefix+name.Name+".", inner)
			continue
		}
		out[prefix+name.Name] = value{expr, in}
	}
}
