"""Which files of Java import which, by javac, compared with `import_edges`.

    python experiments/codebase/java_by_compiler.py FOLDER

javac (17 or later) reads all sources of FOLDER and says of each import what it means: a type and what stands in it lead
to the file of the type, `a.b.*` to all files of the package. What comes from libraries is no edge, so that these need
not be there. Nothing of FOLDER is run, its annotation processors neither.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from edges_compared import Edge, found_edges, tell

from ctxbench.cli.common import run_script
from ctxbench.io.errors import StorageError

_LONGEST = 900  # seconds
_PROGRAM = """
import com.sun.source.tree.*;
import com.sun.source.util.*;
import java.io.File;
import java.nio.file.*;
import java.util.*;
import javax.lang.model.element.*;
import javax.tools.*;

public class Edges {
  public static void main(String[] given) throws Exception {
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, null);
    List<File> files = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(given[0]))) files.add(new File(line));
    List<String> options = List.of("-proc:none", "-Xmaxerrs", "1000000", "-nowarn");
    JavacTask task = (JavacTask) compiler.getTask(null, manager, found -> {}, options, null,
        manager.getJavaFileObjectsFromFiles(files));
    List<CompilationUnitTree> units = new ArrayList<>();
    for (CompilationUnitTree unit : task.parse()) units.add(unit);
    task.analyze();
    Trees trees = Trees.instance(task);
    Map<String, List<CompilationUnitTree>> packages = new HashMap<>();
    for (CompilationUnitTree unit : units)
      if (!unit.getTypeDecls().isEmpty())
        packages.computeIfAbsent(String.valueOf(unit.getPackageName()), name -> new ArrayList<>()).add(unit);
    for (CompilationUnitTree unit : units) {
      System.out.println("file\\t" + name(unit));
      TreePath top = new TreePath(unit);
      for (ImportTree one : unit.getImports()) {
        MemberSelectTree named = (MemberSelectTree) one.getQualifiedIdentifier();
        TreePath path = new TreePath(new TreePath(top, one), named), owner = new TreePath(path, named.getExpression());
        boolean all = named.getIdentifier().contentEquals("*");
        Element found = trees.getElement(one.isStatic() || all ? owner : path);
        if (found instanceof PackageElement && all) {
          for (CompilationUnitTree other : packages.getOrDefault(found.toString(), List.of())) told(unit, other);
        } else if (found instanceof TypeElement) {
          TreePath declared = trees.getPath(found);
          if (declared != null) told(unit, declared.getCompilationUnit());
        }
      }
    }
  }

  static String name(CompilationUnitTree unit) { return Path.of(unit.getSourceFile().toUri()).toString(); }

  static void told(CompilationUnitTree from, CompilationUnitTree to) {
    if (from != to) System.out.println("edge\\t" + name(from) + "\\t" + name(to));
  }
}
"""


def compiled(folder: Path) -> tuple[set[Edge], set[str]]:
    """The edges between files of a folder, and all files that javac read.

    Raises:
        StorageError: there is no javac, or it fails.
    """
    found = sorted(folder.rglob("*.java"))
    if not found:
        raise StorageError(f"{folder} has no file of Java")
    with tempfile.TemporaryDirectory() as temporary:
        program, sources = Path(temporary) / "Edges.java", Path(temporary) / "sources"
        program.write_text(_PROGRAM, "utf-8")
        sources.write_text("".join(f"{path}\n" for path in found), "utf-8")
        command = ["java", str(program), str(sources)]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LONGEST)  # noqa: S603
        except (OSError, subprocess.SubprocessError) as error:
            raise StorageError(f"javac cannot read {folder}: {getattr(error, 'stderr', '') or error}") from error
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    rows = [[kind, *(Path(path).relative_to(folder).as_posix() for path in paths)] for kind, *paths in rows]
    return {(row[1], row[2]) for row in rows if row[0] == "edge"}, {row[1] for row in rows if row[0] == "file"}


def compared(folder: Path) -> tuple[set[Edge], set[Edge]]:
    """The edges by the compiler, and ours between the same files."""
    expected, files = compiled(folder)
    return expected, found_edges(folder, "*.java", "pom.xml", "build.gradle", "build.gradle.kts", files=files)


if __name__ == "__main__":
    run_script(lambda: tell(compared))
