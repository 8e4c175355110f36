// Fails when files of the viewer import each other in a circle: `node lint/circles.mjs`, part of `npm run lint`.
// Imports of types count too. The compiler resolves the imports, so what is checked is what is built.
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { circleIn } from "./circle-in.mjs";

/** What each file under `folder` imports from there. */
function importsUnder(folder) {
  const files = ts.sys.readDirectory(folder, [".ts"]);
  const options = { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler };
  return new Map(files.map((file) => {
    const { importedFiles } = ts.preProcessFile(ts.sys.readFile(file) ?? "");
    const found = importedFiles.map(({ fileName }) => ts.resolveModuleName(fileName, file, options, ts.sys).resolvedModule?.resolvedFileName);
    return [file, found.filter((to) => to?.startsWith(folder))];
  }));
}

const folder = join(dirname(fileURLToPath(import.meta.url)), "../src");
const graph = importsUnder(folder);
const circle = circleIn(graph);
if (circle) {
  console.error(`circle of imports: ${circle.map((file) => relative(folder, file)).join(" -> ")}`);
  process.exit(1);
}
const edges = [...graph.values()].reduce((sum, to) => sum + to.length, 0);
// A check that resolves nothing finds no circle either.
if (edges < graph.size) throw new Error(`only ${edges} imports of ${graph.size} files were resolved`);
console.log(`no circle in ${edges} imports of ${graph.size} files`);
