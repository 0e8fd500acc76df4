package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// comments are the doc comments of types ("File") and fields ("File.Version"), each as one line.
type comments map[string]string

// readComments reads the doc comments of a Go file's structs; each must have one.
func readComments(path string) (comments, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	docs := comments{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			docs[t.Name.Name] = sentence(line(group.Doc), t.Name.Name)
			object, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range object.Fields.List {
				name := t.Name.Name + "." + field.Names[0].Name
				docs[name] = line(field.Doc)
				if docs[name] == "" {
					return nil, fmt.Errorf("%s has no comment", name)
				}
			}
		}
	}
	return docs, nil
}

func line(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// sentence turns "File is the whole file." into "The whole file."
func sentence(doc, name string) string {
	for _, verb := range []string{" is ", " are "} {
		if rest, ok := strings.CutPrefix(doc, name+verb); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return doc
}
