package main

import (
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"path"
	"reflect"
	"strconv"
	"strings"
)

// fields maps the names of KubeletConfiguration's fields in Go to their names in a file.
func fields(r release, dirs map[string]string) (map[string]string, error) {
	files, err := parse(path.Join(dirs[r.of("k8s.io/kubelet")], "config/v1beta1"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok || t.Name.Name != "KubeletConfiguration" {
				return true
			}
			for _, field := range t.Type.(*ast.StructType).Fields.List {
				if len(field.Names) == 0 { // metav1.TypeMeta
					out["Kind"], out["APIVersion"] = "kind", "apiVersion"
					continue
				}
				tag, _ := strconv.Unquote(field.Tag.Value)
				name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				out[field.Names[0].Name] = name
			}
			return false
		})
	}
	if len(out) < 100 {
		return nil, fmt.Errorf("1.%d: only %d fields found", r.minor, len(out))
	}
	return out, nil
}

// defaults returns the values to which SetDefaults_KubeletConfiguration sets a field independently
// of other fields, as Go expressions with the constants of the file resolved.
func defaults(r release, dirs map[string]string, fields map[string]string) (map[string]string, error) {
	files, err := parse(path.Join(dirs[r.of("k8s.io/kubernetes")], "pkg/kubelet/apis/config/v1beta1"))
	if err != nil {
		return nil, err
	}
	named := values(files)
	out := map[string]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "SetDefaults_KubeletConfiguration" {
				continue
			}
			for _, s := range fn.Body.List {
				field, value := assigned(s)
				if value == nil || fields[field] == "" {
					continue
				}
				out[fields[field]] = text(value, named)
			}
		}
	}
	if len(out) < 40 {
		return nil, fmt.Errorf("1.%d: only %d defaults found", r.minor, len(out))
	}
	return out, nil
}

// assigned parses "if obj.Field == ... { obj.Field = value }".
func assigned(s ast.Stmt) (field string, value ast.Expr) {
	cond, ok := s.(*ast.IfStmt)
	if !ok || cond.Init != nil || cond.Else != nil || len(cond.Body.List) != 1 {
		return "", nil
	}
	test, ok := cond.Cond.(*ast.BinaryExpr)
	set, isSet := cond.Body.List[0].(*ast.AssignStmt)
	if !ok || !isSet || test.Op != token.EQL || len(set.Lhs) != 1 || text(test.X, nil) != text(set.Lhs[0], nil) {
		return "", nil
	}
	sel, ok := set.Lhs[0].(*ast.SelectorExpr)
	if !ok || lastName(sel.X) != "obj" {
		return "", nil
	}
	return sel.Sel.Name, set.Rhs[0]
}

// values returns the constants and variables of a package.
func values(files []*ast.File) map[string]ast.Expr {
	out := map[string]ast.Expr{}
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				for i := 0; ok && i < len(v.Values); i++ {
					out[v.Names[i].Name] = v.Values[i]
				}
			}
		}
	}
	return out
}

// text returns an expression as Go source, without a call that only makes a pointer.
func text(e ast.Expr, named map[string]ast.Expr) string {
	switch x := e.(type) {
	case *ast.CallExpr:
		if len(x.Args) == 1 {
			return text(x.Args[0], named) // ptr.To(x), int32(x)
		}
	case *ast.Ident:
		if v, ok := named[x.Name]; ok {
			return text(v, named)
		}
	}
	var b strings.Builder
	if err := printer.Fprint(&b, token.NewFileSet(), e); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), "")
}
