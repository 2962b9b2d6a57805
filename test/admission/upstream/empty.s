// Empty: with an assembly file, a function may be declared without a body (manager.go).
