module github.com/vramscope/vramscope

go 1.26
